package orders;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.cassandra.config.AbstractCassandraConfiguration;
import org.springframework.data.cassandra.config.SchemaAction;
import org.springframework.data.cassandra.core.CassandraOperations;
import org.springframework.data.cassandra.core.InsertOptions;
import org.springframework.data.cassandra.core.cql.keyspace.CreateKeyspaceSpecification;
import org.springframework.data.cassandra.core.mapping.BasicMapId;
import org.springframework.data.cassandra.core.mapping.MapId;
import org.springframework.data.cassandra.core.query.CassandraPageRequest;
import org.springframework.data.cassandra.repository.config.EnableCassandraRepositories;

/** What Spring Data must be able to do: Exercise ADDRESS PORT. Prints "N passed, N failed". */
public final class Exercise {
  private static final LocalDate MONDAY = LocalDate.of(2026, 11, 23);
  private static String host;
  private static int port;
  private static int passed;
  private static int failed;

  /** Makes keyspace and tables, as programs in development let it. */
  @Configuration
  @EnableCassandraRepositories
  public static class Cassandra extends AbstractCassandraConfiguration {
    @Override
    protected String getContactPoints() {
      return host;
    }

    @Override
    protected int getPort() {
      return port;
    }

    @Override
    protected String getLocalDataCenter() {
      return "datacenter1";
    }

    @Override
    protected String getKeyspaceName() {
      return "spring_tests";
    }

    @Override
    protected List<CreateKeyspaceSpecification> getKeyspaceCreations() {
      return List.of(CreateKeyspaceSpecification.createKeyspace("spring_tests").withSimpleReplication());
    }

    @Override
    public SchemaAction getSchemaAction() {
      return SchemaAction.CREATE_IF_NOT_EXISTS;
    }

    @Override
    public String[] getEntityBasePackages() {
      return new String[] {"orders"};
    }
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

  private static void crud(Orders orders) {
    orders.save(new Order(7, MONDAY, "19.90", List.of("tea", "cup")));
    MapId id = BasicMapId.id("customer", 7).with("day", MONDAY);
    Order found = orders.findById(id).orElseThrow();
    check(found.total.equals(new BigDecimal("19.90")) && found.items.size() == 2, found.total);
    found.total = BigDecimal.ONE;
    orders.save(found);
    check(orders.findById(id).orElseThrow().total.equals(BigDecimal.ONE));
    orders.deleteById(id);
    check(!orders.existsById(id) && orders.count() == 0);
  }

  private static void queries(Orders orders) {
    for (int day = 0; day < 25; day++) {
      orders.save(new Order(8, MONDAY.plusDays(day), "1", List.of()));
    }
    check(orders.findByCustomer(8).get(0).day.equals(MONDAY.plusDays(24)));
    check(orders.findByCustomerAndDayGreaterThan(8, MONDAY.plusDays(20)).size() == 4);
    check(orders.countByCustomer(8) == 25);
    int pages = 0;
    int rows = 0;
    var slice = orders.findByCustomer(8, CassandraPageRequest.first(10));
    while (true) {
      pages++;
      rows += slice.getNumberOfElements();
      if (!slice.hasNext()) {
        break;
      }
      slice = orders.findByCustomer(8, slice.nextPageable());
    }
    check(rows == 25 && 3 <= pages, rows, pages);
  }

  private static void conditions(CassandraOperations template) {
    var once = InsertOptions.builder().withIfNotExists().build();
    var order = new Order(9, MONDAY, "5", List.of());
    check(template.insert(order, once).wasApplied());
    check(!template.insert(order, once).wasApplied());
  }

  private static void batches(CassandraOperations template, Orders orders) {
    template.batchOps().insert(new Order(10, MONDAY, "1", List.of()))
        .insert(new Order(11, MONDAY, "2", List.of())).execute();
    check(orders.countByCustomer(10) == 1 && orders.countByCustomer(11) == 1);
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    try (var context = new AnnotationConfigApplicationContext(Cassandra.class)) {
      Orders orders = context.getBean(Orders.class);
      CassandraOperations template = context.getBean(CassandraOperations.class);
      run("create, read, update, delete", () -> crud(orders));
      run("queries and slices", () -> queries(orders));
      run("conditions", () -> conditions(template));
      run("batches", () -> batches(template, orders));
    }
    System.out.println("\n" + passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
