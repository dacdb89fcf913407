import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.tools.SSTableExport;
import org.apache.cassandra.tools.Util;

/**
 * Apache Cassandra's side of the interoperability tests.
 *
 *   write DIR          SSTables of CQLSSTableWriter, a folder below DIR for each table
 *   export LIST        for each line "DATA OUT" of the file LIST: SSTableExport of DATA into OUT;
 *                      if it fails, what it says on stderr goes to OUT.err
 *   totals DATA        the totals of the counters of a file, in order
 */
public final class Interop {
    /** Thrown in place of an exit. */
    private static final class Exit extends SecurityException {
        final int code;
        Exit(int code) { this.code = code; }
    }

    @SuppressWarnings({"removal", "deprecation"})
    private static void trapExit() {
        System.setSecurityManager(new SecurityManager() {
            @Override public void checkExit(int code) { throw new Exit(code); }
            @Override public void checkPermission(java.security.Permission permission) { }
        });
    }

    @SuppressWarnings({"removal", "deprecation"})
    private static void allowExit() { System.setSecurityManager(null); }

    public static void main(String[] words) throws Exception {
        try {
            if (words[0].equals("write")) write(Path.of(words[1]));
            else if (words[0].equals("totals")) totals(words[1]);
            else export(Path.of(words[1]));
            System.exit(0);
        } catch (Throwable thrown) {
            // Other threads would keep the process alive.
            thrown.printStackTrace();
            System.exit(1);
        }
    }

    private static void export(Path list) throws Exception {
        PrintStream out = System.out, err = System.err;
        // What the class does when it is loaded is not allowed while exits are trapped.
        Class.forName(SSTableExport.class.getName());
        for (String line : Files.readAllLines(list)) {
            String[] parts = line.split("\t");
            ByteArrayOutputStream complaint = new ByteArrayOutputStream();
            boolean failed = false;
            trapExit();
            try (PrintStream to = new PrintStream(new FileOutputStream(parts[1]))) {
                System.setOut(to);
                System.setErr(new PrintStream(complaint));
                SSTableExport.main(new String[] {parts[0], "-t"});
            } catch (Exit exit) {
                failed = exit.code != 0;
            } catch (Throwable thrown) {
                failed = true;
                thrown.printStackTrace(new PrintStream(complaint, true));
            }
            allowExit();
            System.setOut(out);
            System.setErr(err);
            // What it says without failing is for its own developers: references that leak.
            byte[] said = failed ? complaint.toByteArray() : new byte[0];
            Files.write(Path.of(parts[1] + ".err"), said);
        }
    }

    /** SSTableExport prints no value of a counter: this reads them as Cassandra does. */
    private static void totals(String data) throws Exception {
        DatabaseDescriptor.toolInitialization(false);
        Descriptor descriptor =
            Descriptor.fromFile(new org.apache.cassandra.io.util.File(data));
        TableMetadataRef table =
            TableMetadataRef.forOfflineTools(Util.metadataFromSSTable(descriptor));
        SSTableReader reader = SSTableReader.openNoValidation(null, descriptor, table);
        try (ISSTableScanner scanner = reader.getScanner()) {
            while (scanner.hasNext())
                try (UnfilteredRowIterator partition = scanner.next()) {
                    while (partition.hasNext()) {
                        Unfiltered unfiltered = partition.next();
                        for (Cell<?> cell : ((Row) unfiltered).cells()) System.out.println(total(cell));
                    }
                }
        }
    }

    private static <V> long total(Cell<V> cell) {
        return CounterContext.instance().total(cell.value(), cell.accessor());
    }

    private static void write(Path dir) throws Exception {
        // Otherwise the writer would not look at the configuration, which names the format.
        DatabaseDescriptor.toolInitialization(false);
        types(dir);
        collections(dir);
        userTypes(dir);
        rows(dir);
        deletions(dir);
        for (String name : List.of("LZ4", "Snappy", "Deflate", "Zstd", "none")) compressed(dir, name);
        large(dir);
    }

    private static File folder(Path dir, String table) throws Exception {
        return Files.createDirectories(dir.resolve("k").resolve(table)).toFile();
    }

    private static CQLSSTableWriter.Builder writer(File folder, String schema, String statement) {
        return CQLSSTableWriter.builder().inDirectory(folder.getPath()).forTable(schema).using(statement);
    }

    /** A column of each scalar type; a row of values, one of extremes, one of nulls. */
    private static void types(Path dir) throws Exception {
        String[] types = {"ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration",
            "float", "inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint",
            "uuid", "varint"};
        StringBuilder schema = new StringBuilder("CREATE TABLE k.types (p int PRIMARY KEY");
        StringBuilder names = new StringBuilder("p"), marks = new StringBuilder("?");
        for (String type : types) {
            schema.append(", ").append(type).append("_ ").append(type);
            names.append(", ").append(type).append('_');
            marks.append(", ?");
        }
        String insert = "INSERT INTO k.types (" + names + ") VALUES (" + marks
            + ") USING TIMESTAMP 1000000";
        CQLSSTableWriter writer = writer(folder(dir, "types"), schema + ")", insert).build();
        UUID time = UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f");
        UUID random = UUID.fromString("123e4567-e89b-42d3-a456-426655440000");
        Object duration = org.apache.cassandra.cql3.Duration.newInstance(1, 2, 3_000_000_000L);
        writer.addRow(1, "text", -5L, ByteBuffer.wrap(new byte[] {0, -1, 7}), true, day(20000),
            new BigDecimal("1.50"), 0.25d, duration, -0.5f, InetAddress.getByName("127.0.0.1"), 7,
            (short) -3, "\u00fc\"'\n", 1_234_567_890L, new Date(1300000000123L), time, (byte) 1, random,
            new BigInteger("123456789012345678901234567890"));
        writer.addRow(2, "", Long.MIN_VALUE, ByteBuffer.allocate(0), false, day(-1),
            new BigDecimal("-1E+5"), Double.MAX_VALUE, duration, Float.MIN_VALUE,
            InetAddress.getByName("::1"), Integer.MIN_VALUE, Short.MAX_VALUE, "", 0L, new Date(0), time,
            Byte.MIN_VALUE, random, BigInteger.ZERO);
        Object[] nulls = new Object[types.length + 1];
        nulls[0] = 3;
        writer.addRow(nulls);
        writer.close();
    }

    /** A date: days since 1970, counted from the least. */
    private static Object day(int days) {
        return days + Integer.MIN_VALUE;
    }

    /** Collections, frozen and not; tuples, vectors. */
    private static void collections(Path dir) throws Exception {
        String schema = "CREATE TABLE k.collections (p int, c int, l list<int>, s set<text>,"
            + " m map<text, int>, fl frozen<list<int>>, fs frozen<set<int>>,"
            + " fm frozen<map<int, text>>, v vector<float, 3>, n map<text, frozen<list<int>>>,"
            + " PRIMARY KEY (p, c))";
        String insert = "INSERT INTO k.collections (p, c, l, s, m, fl, fs, fm, v, n)"
            + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP 2000000";
        CQLSSTableWriter writer = writer(folder(dir, "collections"), schema, insert).build();
        Map<String, Integer> map = new LinkedHashMap<>(Map.of("a", 1, "it's", 2));
        Set<String> set = new HashSet<>(List.of("x", "y", ""));
        for (int p = 0; p < 3; p++) {
            writer.addRow(p, 1, List.of(3, 1, 2), set, map, List.of(1, 2), Set.of(5, 4),
                Map.of(1, "one", 2, "two"), List.of(0.5f, 1.5f, -2f), Map.of("k", List.of(1, 2)));
            writer.addRow(p, 2, null, null, null, null, null, null, null, null);
            writer.addRow(p, 3, List.of(), Set.of(), Map.of(), List.of(), Set.of(), Map.of(), null,
                Map.of());
        }
        writer.close();
    }

    /** User types and tuples, frozen and not, with nulls in them. */
    private static void userTypes(Path dir) throws Exception {
        String schema = "CREATE TABLE k.usertypes (p int PRIMARY KEY, u u, f frozen<u>,"
            + " t tuple<int, text, frozen<list<int>>>, l list<frozen<u>>)";
        String insert = "INSERT INTO k.usertypes (p, u, f, t, l) VALUES (?, {a: 1, b: 'x'},"
            + " {a: null, b: 'it''s'}, (1, null, [1, 2]), [{a: 3, b: 'y'}, {a: 4, b: null}])"
            + " USING TIMESTAMP 7";
        CQLSSTableWriter writer = CQLSSTableWriter.builder()
            .inDirectory(folder(dir, "usertypes").getPath())
            .withType("CREATE TYPE k.u (a int, b text)").forTable(schema).using(insert).build();
        for (int p = 0; p < 3; p++) writer.addRow(p);
        writer.close();
    }

    /** Many rows in a few partitions, a static column, a descending key, ttls. */
    private static void rows(Path dir) throws Exception {
        String schema = "CREATE TABLE k.rows (p text, q int, c int, d text, s text STATIC, v int, w text,"
            + " PRIMARY KEY ((p, q), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)";
        String insert = "INSERT INTO k.rows (p, q, c, d, s, v, w) VALUES (?, ?, ?, ?, ?, ?, ?)"
            + " USING TIMESTAMP 3000000 AND TTL ?";
        CQLSSTableWriter writer = writer(folder(dir, "rows"), schema, insert).build();
        for (int p = 0; p < 4; p++)
            for (int c = 0; c < 20; c++)
                writer.addRow("p" + p, -p, c, "d" + c, "static" + p, c % 3 == 0 ? null : c, "w" + c,
                    c % 4 == 0 ? 100000 : 0);
        writer.close();
    }

    /** A file for each kind of deletion. */
    private static void deletions(Path dir) throws Exception {
        String schema = "CREATE TABLE k.deletions (p int, c int, d int, v int, l list<int>,"
            + " m map<int, int>, PRIMARY KEY (p, c, d))";
        String[] statements = {
            "DELETE FROM k.deletions USING TIMESTAMP 10 WHERE p = ?",
            "DELETE FROM k.deletions USING TIMESTAMP 11 WHERE p = ? AND c = ? AND d = ?",
            "DELETE v FROM k.deletions USING TIMESTAMP 12 WHERE p = ? AND c = ? AND d = ?",
            "DELETE l FROM k.deletions USING TIMESTAMP 13 WHERE p = ? AND c = ? AND d = ?",
            "DELETE m[7] FROM k.deletions USING TIMESTAMP 14 WHERE p = ? AND c = ? AND d = ?",
            "DELETE FROM k.deletions USING TIMESTAMP 15 WHERE p = ? AND c = ?",
            "DELETE FROM k.deletions USING TIMESTAMP 16 WHERE p = ? AND c > ? AND c <= ?",
            "DELETE FROM k.deletions USING TIMESTAMP 17 WHERE p = ? AND c = ? AND d >= ? AND d < ?",
            "DELETE FROM k.deletions USING TIMESTAMP 18 WHERE p = ? AND c >= ?",
        };
        Object[][] values = {{1}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2}, {1, 2, 4},
            {1, 2, 3, 5}, {1, 2}};
        for (int i = 0; i < statements.length; i++) {
            File folder = folder(dir, "deletions" + i);
            CQLSSTableWriter writer = writer(folder, schema, statements[i]).build();
            for (int key = 1; key <= 3; key++) {
                Object[] row = values[i].clone();
                row[0] = key;
                writer.addRow(row);
            }
            writer.close();
        }
        overlapping(dir, schema);
    }

    /** Deletions that touch and overlap, among rows. */
    private static void overlapping(Path dir, String schema) throws Exception {
        File folder = folder(dir, "overlapping");
        String statement = "DELETE FROM k.deletions USING TIMESTAMP ? WHERE p = ? AND c >= ? AND c < ?";
        CQLSSTableWriter writer = writer(folder, schema, statement).build();
        for (long p = 0; p < 3; p++)
            for (int i = 0; i < 6; i++)
                writer.addRow(100L + i * 7 % 5, (int) p, i * 2, i * 2 + 3);
        writer.close();
    }

    private static void compressed(Path dir, String name) throws Exception {
        String options = name.equals("none") ? "{'enabled': false}"
            : "{'class': '" + name + "Compressor', 'chunk_length_in_kb': 4}";
        String table = "compressed_" + name.toLowerCase();
        String schema = "CREATE TABLE k." + table + " (p int, c int, v text, PRIMARY KEY (p, c))"
            + " WITH compression = " + options;
        String insert = "INSERT INTO k." + table + " (p, c, v) VALUES (?, ?, ?) USING TIMESTAMP 5";
        CQLSSTableWriter writer = writer(folder(dir, table), schema, insert).build();
        for (int p = 0; p < 20; p++)
            for (int c = 0; c < 20; c++)
                writer.addRow(p, c, "value ".repeat(1 + c) + p * c);
        writer.close();
    }

    /** A partition with an index of its rows, and many small ones. */
    private static void large(Path dir) throws Exception {
        String schema = "CREATE TABLE k.large (p int, c int, v text, PRIMARY KEY (p, c))";
        String insert = "INSERT INTO k.large (p, c, v) VALUES (?, ?, ?) USING TIMESTAMP 6";
        CQLSSTableWriter writer = writer(folder(dir, "large"), schema, insert).build();
        for (int c = 0; c < 2000; c++) writer.addRow(0, c, "x".repeat(100) + c);
        for (int p = 1; p < 500; p++) writer.addRow(p, 0, "small");
        writer.close();
    }
}
