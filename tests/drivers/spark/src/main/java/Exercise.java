import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.sum;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;

/** What the Spark connector must be able to do: Exercise ADDRESS PORT. Prints "N passed, N failed". */
public final class Exercise {
  private static final int ROWS = 5_000;
  private static int passed;
  private static int failed;
  private final SparkSession spark;

  private Exercise(SparkSession spark) {
    this.spark = spark;
  }

  private static void check(boolean condition, Object... facts) {
    if (!condition) {
      throw new AssertionError(Arrays.deepToString(facts));
    }
  }

  private static void run(String name, Runnable test) {
    try {
      test.run();
      passed++;
    } catch (Throwable error) {
      failed++;
      System.out.println("FAILED " + name + ": " + error);
      error.printStackTrace(System.out);
    }
  }

  private Dataset<Row> table(String name) {
    return spark.read().format("org.apache.spark.sql.cassandra")
        .options(Map.of("keyspace", "spark_tests", "table", name)).load();
  }

  private void schema() {
    spark.sql("CREATE DATABASE IF NOT EXISTS node.spark_tests WITH DBPROPERTIES "
        + "(class='SimpleStrategy', replication_factor='1')");
    spark.sql("CREATE TABLE node.spark_tests.events (day INT, number INT, text STRING, big BIGINT) "
        + "USING cassandra PARTITIONED BY (day) TBLPROPERTIES (clustering_key='number.asc')");
    check(List.of(spark.table("node.spark_tests.events").columns()).contains("big"));
  }

  private void write() {
    spark.range(ROWS)
        .select(col("id").mod(7).cast("int").as("day"), col("id").cast("int").as("number"),
            col("id").cast("string").as("text"), col("id").as("big"))
        .write().format("org.apache.spark.sql.cassandra")
        .options(Map.of("keyspace", "spark_tests", "table", "events"))
        .mode(SaveMode.Append).save();
  }

  private void scan() {
    Dataset<Row> events = table("events");
    check(events.count() == ROWS, events.count());
    long total = events.agg(sum("big")).first().getLong(0);
    check(total == (long) ROWS * (ROWS - 1) / 2, total);
    check(1 < table("events").rdd().getNumPartitions(), "one split");
  }

  private void pushDown() {
    Dataset<Row> slice = table("events").filter("day = 3 AND number > 4000");
    check(slice.queryExecution().executedPlan().toString().contains("number"), slice);
    long expected = 0;
    for (int number = 4001; number < ROWS; number++) {
      expected += number % 7 == 3 ? 1 : 0;
    }
    check(slice.count() == expected, slice.count(), expected);
  }

  private void join() {
    Dataset<Row> days = spark.range(3).select(col("id").cast("int").as("day"));
    Dataset<Row> joined = days.join(table("events"), "day");
    long expected = 0;
    for (int number = 0; number < ROWS; number++) {
      expected += number % 7 < 3 ? 1 : 0;
    }
    check(joined.count() == expected, joined.count(), expected);
  }

  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().master("local[2]").appName("nereid")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.cassandra.connection.host", arguments[0])
        .config("spark.cassandra.connection.port", arguments[1])
        .config("spark.cassandra.input.split.sizeInMB", "1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.catalog.node", "com.datastax.spark.connector.datasource.CassandraCatalog")
        .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
        .getOrCreate();
    spark.sparkContext().setLogLevel("ERROR");
    var exercise = new Exercise(spark);
    run("schema", exercise::schema);
    run("write", exercise::write);
    run("scan", exercise::scan);
    run("push down", exercise::pushDown);
    run("join", exercise::join);
    System.out.println("\n" + passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
