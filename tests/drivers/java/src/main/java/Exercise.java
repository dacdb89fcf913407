import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultProtocolVersion;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import org.slf4j.LoggerFactory;

/** What the Java drivers 4.x must be able to do: Exercise ADDRESS PORT. Prints "N passed, N failed". */
public final class Exercise {
  private static final String KEYSPACE = "java_tests";
  private static int passed;
  private static int failed;

  private final CqlSession session;
  private int tables;

  private Exercise(CqlSession session) {
    this.session = session;
  }

  private interface Case {
    void run() throws Exception;
  }

  private static void check(boolean condition, Object... facts) {
    if (!condition) {
      throw new AssertionError(Arrays.deepToString(facts));
    }
  }

  private static void run(String name, Case test) {
    try {
      test.run();
      passed++;
    } catch (Throwable error) {
      failed++;
      System.out.println("FAILED " + name + ": " + error);
      error.printStackTrace(System.out);
    }
  }

  private static CqlSession connect(InetSocketAddress address, String keyspace, String version) {
    var config = DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, Duration.ofSeconds(30))
        .withInt(DefaultDriverOption.REQUEST_PAGE_SIZE, 10);
    if (version != null) {
      config = config.withString(DefaultDriverOption.PROTOCOL_VERSION, version);
    }
    var builder = CqlSession.builder().addContactPoint(address).withLocalDatacenter("datacenter1")
        .withConfigLoader(config.build());
    return (keyspace == null ? builder : builder.withKeyspace(CqlIdentifier.fromCql(keyspace))).build();
  }

  private String table(String columns) {
    String name = "t" + tables++;
    session.execute("CREATE TABLE " + name + " (" + columns + ")");
    return name;
  }

  private void roundTrip(String type, Object value) {
    String name = table("k int PRIMARY KEY, v " + type);
    PreparedStatement insert = session.prepare("INSERT INTO " + name + " (k, v) VALUES (?, ?)");
    session.execute(insert.bind(1, value));
    session.execute(insert.bind(2, null));
    PreparedStatement select = session.prepare("SELECT v FROM " + name + " WHERE k = ?");
    Object got = session.execute(select.bind(1)).one().getObject(0);
    check(value.equals(got), type, value, got);
    check(session.execute(select.bind(2)).one().isNull(0), type);
  }

  private void types() throws Exception {
    Object[][] cases = {
      {"ascii", "abc"}, {"bigint", Long.MIN_VALUE}, {"blob", ByteBuffer.wrap(new byte[] {1, 0, -1})},
      {"boolean", true}, {"date", LocalDate.of(2026, 11, 24)}, {"decimal", new BigDecimal("-19.90")},
      {"double", 2.5}, {"duration", CqlDuration.newInstance(1, 2, 3)}, {"float", 2.5f},
      {"inet", InetAddress.getByName("::1")}, {"int", 7}, {"smallint", (short) -7},
      {"text", "\u00fc\ud83d\ude00"}, {"time", LocalTime.of(1, 2, 3, 4)},
      {"timestamp", Instant.ofEpochMilli(1)}, {"timeuuid", UUID.fromString(
          "59b82720-99b0-1033-885c-e94d62106a35")}, {"tinyint", (byte) -1},
      {"uuid", UUID.randomUUID()}, {"varint", BigInteger.TWO.pow(200).negate()},
      {"list<int>", List.of(1, 1, 2)}, {"set<text>", Set.of("a", "b")},
      {"map<int, frozen<list<text>>>", Map.of(1, List.of("x"))},
    };
    for (Object[] one : cases) {
      run("type " + one[0], () -> roundTrip((String) one[0], one[1]));
    }
  }

  private void tuplesAndUserTypes() {
    TupleType pair = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT);
    TupleValue tuple = pair.newValue(1, "x");
    roundTrip("tuple<int, text>", tuple);
    roundTrip("tuple<int>", DataTypes.tupleOf(DataTypes.INT).newValue(7));
    session.execute("CREATE TYPE address (street text, numbers frozen<list<int>>)");
    session.refreshSchema();
    UserDefinedType type = session.getMetadata().getKeyspace(KEYSPACE).orElseThrow()
        .getUserDefinedType("address").orElseThrow();
    UdtValue value = type.newValue("Elm", List.of(1, 2));
    roundTrip("address", value);
  }

  private void pages() {
    String name = table("p int, c int, PRIMARY KEY (p, c)");
    PreparedStatement insert = session.prepare("INSERT INTO " + name + " (p, c) VALUES (?, ?)");
    List<CompletionStage<?>> writes = new ArrayList<>();
    for (int p = 0; p < 5; p++) {
      for (int c = 0; c < 25; c++) {
        writes.add(session.executeAsync(insert.bind(p, c)));
      }
    }
    writes.forEach(write -> write.toCompletableFuture().join());
    ResultSet scan = session.execute("SELECT p, c FROM " + name);
    check(!scan.isFullyFetched());
    check(scan.all().size() == 125);
    List<Integer> slice = new ArrayList<>();
    SimpleStatement reversed = SimpleStatement.newInstance(
        "SELECT c FROM " + name + " WHERE p = 3 ORDER BY c DESC LIMIT 12");
    session.execute(reversed).forEach(row -> slice.add(row.getInt(0)));
    check(slice.size() == 12 && slice.get(0) == 24 && slice.get(11) == 13, slice);
  }

  private void batchesAndConditions() {
    String name = table("p int, c int, v int, PRIMARY KEY (p, c)");
    PreparedStatement insert =
        session.prepare("INSERT INTO " + name + " (p, c, v) VALUES (?, ?, ?)");
    session.execute(BatchStatement.newInstance(
        DefaultBatchType.LOGGED, insert.bind(1, 1, 1), insert.bind(2, 1, 1)));
    check(session.execute("SELECT v FROM " + name).all().size() == 2);
    SimpleStatement update = SimpleStatement.newInstance(
        "UPDATE " + name + " SET v = 2 WHERE p = 1 AND c = 1 IF v = 1");
    ResultSet applied = session.execute(BatchStatement.newInstance(DefaultBatchType.LOGGED, update));
    check(applied.wasApplied());
    Row refused = session.execute(
        BatchStatement.newInstance(DefaultBatchType.LOGGED, update)).one();
    check(!refused.getBoolean("[applied]") && refused.getInt("v") == 2, refused.getFormattedContents());
    check(!session.execute(session.prepare(
        "INSERT INTO " + name + " (p, c) VALUES (?, ?) IF NOT EXISTS").bind(1, 1)).wasApplied());
  }

  private void countersAndStatics() {
    String counters = table("k int PRIMARY KEY, n counter");
    PreparedStatement add = session.prepare("UPDATE " + counters + " SET n = n + ? WHERE k = 1");
    session.execute(BatchStatement.newInstance(
        DefaultBatchType.COUNTER, add.bind(5L), add.bind(-2L)));
    check(session.execute("SELECT n FROM " + counters).one().getLong(0) == 3);
    String statics = table("p int, c int, s text STATIC, PRIMARY KEY (p, c)");
    session.execute("INSERT INTO " + statics + " (p, s) VALUES (1, 'x')");
    check(session.execute("SELECT s, c FROM " + statics).one().isNull("c"));
  }

  private void errors() {
    try {
      session.execute("SELEC 1");
      check(false, "no error");
    } catch (SyntaxError expected) {
      check(expected.getMessage().contains("1"), expected);
    }
    try {
      session.execute("SELECT * FROM no_such_table");
      check(false, "no error");
    } catch (InvalidQueryException expected) {
      check(expected.getMessage().contains("no_such_table"), expected);
    }
  }

  private void tracing() throws Exception {
    ResultSet answer = session.execute(
        SimpleStatement.newInstance("SELECT key FROM system.local").setTracing(true));
    var trace = answer.getExecutionInfo().getQueryTrace();
    check(!trace.getEvents().isEmpty());
  }

  private void schema() {
    String name = table("p int, c text, v list<int>, PRIMARY KEY (p, c)");
    session.refreshSchema();
    TableMetadata table = session.getMetadata().getKeyspace(KEYSPACE).orElseThrow()
        .getTable(name).orElseThrow();
    check(table.getPartitionKey().size() == 1 && table.getClusteringColumns().size() == 1);
    check(table.describe(false).contains("list<int>"), table.describe(false));
    session.execute("ALTER TABLE " + name + " ADD w int");
    check(session.prepare("SELECT w FROM " + name).getResultSetDefinitions().size() == 1);
    check(session.checkSchemaAgreement());
  }

  private void topology(InetSocketAddress address) {
    var nodes = session.getMetadata().getNodes().values();
    check(nodes.size() == 1, nodes);
    Node node = nodes.iterator().next();
    check(node.getEndPoint().resolve().equals(address), node);
    check(session.getMetadata().getTokenMap().isPresent());
  }

  /** ScyllaDB's driver opens a connection to each shard; Apache's has no such thing to ask. */
  private void shards(int count) throws Exception {
    Object sharding;
    Node node = session.getMetadata().getNodes().values().iterator().next();
    try {
      sharding = node.getClass().getMethod("getShardingInfo").invoke(node);
    } catch (NoSuchMethodException apache) {
      return;
    }
    check(sharding != null, "the driver knows no shards");
    Object seen = sharding.getClass().getMethod("getShardsCount").invoke(sharding);
    check(seen.equals(count), seen);
  }

  private static void noWarnings() {
    Logger root = (Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
    var kept = ((ListAppender<ILoggingEvent>) root.getAppender("kept")).list;
    check(kept.isEmpty(), kept);
  }

  public static void main(String[] arguments) {
    var address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
    try (CqlSession first = connect(address, null, null)) {
      run("version", () -> check(first.getContext().getProtocolVersion()
          == DefaultProtocolVersion.V5, first.getContext().getProtocolVersion()));
      first.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = "
          + "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}");
    }
    try (CqlSession session = connect(address, KEYSPACE, "V4")) {
      var exercise = new Exercise(session);
      run("types", exercise::types);
      run("tuples and user types", exercise::tuplesAndUserTypes);
    }
    try (CqlSession session = connect(address, KEYSPACE, null)) {
      var exercise = new Exercise(session);
      exercise.tables = 100;
      run("pages", exercise::pages);
      run("batches and conditions", exercise::batchesAndConditions);
      run("counters and statics", exercise::countersAndStatics);
      run("errors", exercise::errors);
      run("tracing", exercise::tracing);
      run("schema", exercise::schema);
      run("topology", () -> exercise.topology(address));
      run("shards", () -> exercise.shards(2));
    }
    run("no warnings", Exercise::noWarnings);
    System.out.println("\n" + passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
