import com.scylladb.cdc.lib.CDCConsumer;
import com.scylladb.cdc.model.TableName;
import com.scylladb.cdc.model.worker.ChangeId;
import com.scylladb.cdc.model.worker.RawChange;
import com.scylladb.cdc.model.worker.cql.Field;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import shaded.com.scylladb.cdc.driver3.driver.core.Cluster;
import shaded.com.scylladb.cdc.driver3.driver.core.Session;

/**
 * Who reads logs of changes by ScyllaDB's library of Java for it: Exercise ADDRESS PORT. Prints
 * "N passed, N failed".
 */
public final class Exercise {
  private static final int PARTITIONS = 20;
  private static final String[] COLUMNS = {"c", "f", "l", "m", "s", "t", "u", "v"};
  private static int passed;
  private static int failed;

  /** What the library told of one table. */
  private static final class Told {
    /** By partition, the rows in the order in which they came. */
    final Map<Integer, List<String>> rows = new HashMap<>();
    /** By stream, the newest change and the number of its newest row. */
    final Map<Object, ChangeId> changes = new HashMap<>();
    final Map<Object, Integer> numbers = new HashMap<>();
    final List<String> strange = new ArrayList<>();

    synchronized CompletableFuture<Void> consume(RawChange change) {
      ChangeId id = change.getId();
      ChangeId last = changes.put(id.getStreamId(), id);
      int number = change.getBatchSequenceNumber();
      Integer lastNumber = numbers.put(id.getStreamId(), change.isEndOfBatch() ? -1 : number);
      boolean first = lastNumber == null || lastNumber == -1;
      boolean follows = first ? number == 0 && (last == null || last.compareTo(id) < 0)
          : number == lastNumber + 1 && last.equals(id);
      if (!follows) {
        strange.add(number + " of " + id + " after " + lastNumber + " of " + last);
      }
      int p = change.getCell("p").getInt();
      rows.computeIfAbsent(p, none -> new ArrayList<>()).add(render(change));
      return CompletableFuture.completedFuture(null);
    }

    synchronized int count() {
      return rows.values().stream().mapToInt(List::size).sum();
    }
  }

  /** What changes.txt has: statements, and what a log with images, or without, tells of them. */
  private record Script(List<String> statements, List<String> rows) {
    static Script read(boolean images) throws IOException {
      Script script = new Script(new ArrayList<>(), new ArrayList<>());
      String text = Files.readString(Path.of("../changes.txt")).replace(" \\\n", " ");
      for (String line : text.split("\n")) {
        if (!line.startsWith("  ") && !line.startsWith("#")) {
          script.statements.add(line);
        } else if (line.startsWith("  ") && (images || !line.matches("  [09].*"))) {
          script.rows.add(line.trim());
        }
      }
      return script;
    }
  }

  /** Warnings of the library, but that of its driver which all who select all columns have. */
  private static final class Warnings extends Handler {
    final List<String> texts = new ArrayList<>();

    @Override
    public synchronized void publish(LogRecord record) {
      boolean isWarning = Level.WARNING.intValue() <= record.getLevel().intValue();
      if (isWarning && !record.getMessage().contains("is a wildcard select")) {
        texts.add(record.getLoggerName() + ": " + record.getMessage() + " " + record.getThrown());
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  private static void check(boolean condition, Object... facts) {
    if (!condition) {
      throw new AssertionError(Arrays.deepToString(facts));
    }
  }

  /** A row as changes.txt has it. */
  private static String render(RawChange change) {
    List<String> words = new ArrayList<>();
    words.add(String.valueOf(change.getCell("cdc$operation").getByte()));
    if (change.getTTL() != null) {
      words.add("ttl=" + change.getTTL());
    }
    for (String name : COLUMNS) {
      if (!name.equals("c") && change.isDeleted(name)) {
        words.add(name + "-");
      }
      Collection<Field> elements =
          "lmsu".contains(name) ? change.getDeletedElements(name) : null;
      if (elements != null && !elements.isEmpty()) {
        words.add(name + "-" + (name.equals("l") ? elements.size() : sorted(elements)));
      }
      String value = value(change.getCell(name).getAsObject());
      if (!value.isEmpty()) {
        words.add(name + "=" + value);
      }
    }
    return String.join(" ", words);
  }

  private static String sorted(Collection<Field> elements) {
    return elements.stream().map(element -> value(element.getAsObject())).sorted()
        .collect(Collectors.joining(",", "[", "]"));
  }

  /** What the library gives for a value; nothing if there is none. */
  private static String value(Object of) {
    if (of == null || of instanceof Collection<?> all && all.isEmpty()
        || of instanceof Map<?, ?> entries && entries.isEmpty()) {
      return "";
    }
    if (of instanceof List<?> tuple) {
      return tuple.stream().map(field -> ((Field) field).getAsObject())
          .map(field -> field == null ? "null" : value(field))
          .collect(Collectors.joining(",", "(", ")"));
    }
    if (of instanceof Map<?, ?> entries) {
      Map<Long, String> byTime = new java.util.TreeMap<>();
      List<String> byName = new ArrayList<>();
      entries.forEach((key, held) -> {
        Object name = key instanceof Field field ? field.getAsObject() : key;
        Object element = ((Field) held).getAsObject();
        if (name instanceof UUID time) {
          byTime.put(time.timestamp(), value(element));
        } else if (element != null) {
          byName.add(name + ":" + value(element));
        }
      });
      byName.sort(null);
      byName.addAll(byTime.values());
      return byName.isEmpty() ? "" : "[" + String.join(",", byName) + "]";
    }
    if (of instanceof Collection<?> elements) {
      return sorted(elements.stream().map(element -> (Field) element).toList());
    }
    return of.toString();
  }

  /** Where a log is: over the ring; over tablets; over tablets, of which there are more later. */
  private enum Place { RING, TABLETS, DIVIDED }

  private static void create(Session session, String keyspace, boolean tablets) {
    session.execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': "
        + "'NetworkTopologyStrategy', 'replication_factor': 1} AND tablets = {'enabled': " + tablets
        + "}");
    session.execute("CREATE TYPE " + keyspace + ".pair (a int, b text)");
    for (boolean images : new boolean[] {false, true}) {
      session.execute("CREATE TABLE " + keyspace + "." + table(images) + " (p int, c int, "
          + "f text static, l list<int>, m map<text, int>, s set<text>, t tuple<int, text>, "
          + "u pair, v int, PRIMARY KEY (p, c)) WITH cdc = " + log(images));
    }
  }

  private static String log(boolean images) {
    return "{'enabled': true, 'preimage': " + images + ", 'postimage': " + images + "}";
  }

  /** Ends the log of a table, and makes a new one when the table has more tablets. */
  private static void divide(Session session, String keyspace, boolean images) throws Exception {
    String alter = "ALTER TABLE " + keyspace + "." + table(images) + " WITH ";
    session.execute(alter + "cdc = {'enabled': false}");
    session.execute(alter + "tablets = {'min_tablet_count': 8}");
    String query = "SELECT tablet_count FROM system.tablets WHERE keyspace_name = '" + keyspace
        + "' AND table_name = '" + table(images) + "' LIMIT 1 ALLOW FILTERING";
    long deadline = System.nanoTime() + 60_000_000_000L;
    while (session.execute(query).one().getInt(0) < 8) {
      check(System.nanoTime() < deadline, "no more tablets");
      Thread.sleep(20);
    }
    session.execute(alter + "cdc = " + log(images));
  }

  private static String table(boolean images) {
    return images ? "with_images" : "without_images";
  }

  /** Makes tables with logs, with images and without, writes, and has the library read both. */
  private static void readChanges(String address, int port, Session session, Place place)
      throws Exception {
    String keyspace = "changes_" + place.name().toLowerCase();
    create(session, keyspace, place != Place.RING);
    Map<String, Told> told = new HashMap<>();
    int expected = 0;
    for (boolean images : new boolean[] {false, true}) {
      told.put(table(images), new Told());
      Script script = Script.read(images);
      expected += PARTITIONS * script.rows.size();
      for (int i = 0; i < script.statements.size(); i++) {
        if (place == Place.DIVIDED && i == script.statements.size() / 2) {
          divide(session, keyspace, images);
        }
        String text = script.statements.get(i).replace("$t", keyspace + "." + table(images));
        for (int p = 0; p < PARTITIONS; p++) {
          session.execute(text.replace("$p", "" + p));
        }
      }
    }
    CDCConsumer consumer = CDCConsumer.builder()
        .addContactPoint(address, port)
        .addTable(new TableName(keyspace, table(false)))
        .addTable(new TableName(keyspace, table(true)))
        .withConsumer((task, change) -> told.get(task.id.getTable().name).consume(change))
        .withQueryTimeWindowSizeMs(2000)
        .withConfidenceWindowSizeMs(100)
        .withQueryOptionsFetchSize(7)
        .withSleepBeforeGenerationDoneMs(100)
        .withWorkersCount(2)
        .build();
    try (consumer) {
      check(consumer.validate().isEmpty(), "the library refuses the tables");
      consumer.start();
      long deadline = System.nanoTime() + 60_000_000_000L;
      while (told.values().stream().mapToInt(Told::count).sum() < expected
          && System.nanoTime() < deadline) {
        Thread.sleep(20);
      }
    }
    for (boolean images : new boolean[] {false, true}) {
      Told of = told.get(table(images));
      check(of.strange.isEmpty(), of.strange);
      for (int p = 0; p < PARTITIONS; p++) {
        List<String> rows = of.rows.getOrDefault(p, List.of());
        check(rows.equals(Script.read(images).rows), table(images), p, String.join("\n  ", rows));
      }
      check(of.rows.size() == PARTITIONS, of.rows.keySet());
    }
  }

  private static void run(String address, int port, Session session, Place place) {
    try {
      readChanges(address, port, session, place);
      passed++;
    } catch (Throwable error) {
      failed++;
      System.out.println("FAILED " + place + ": " + error);
      error.printStackTrace(System.out);
    }
  }

  public static void main(String[] arguments) {
    String address = arguments[0];
    int port = Integer.parseInt(arguments[1]);
    Logger root = Logger.getLogger("");
    Arrays.stream(root.getHandlers()).forEach(root::removeHandler);
    Warnings warnings = new Warnings();
    root.addHandler(warnings);
    try (Cluster cluster = Cluster.builder().addContactPoint(address).withPort(port).build()) {
      Session session = cluster.connect();
      for (Place place : Place.values()) {
        run(address, port, session, place);
      }
    }
    if (warnings.texts.isEmpty()) {
      passed++;
    } else {
      failed++;
      System.out.println("FAILED no warnings: " + String.join("\n", warnings.texts.subList(
          0, Math.min(20, warnings.texts.size()))));
    }
    System.out.println("\n" + passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
