package orders;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;

/** Orders of customers, newest first. */
public final class Orders {
  private final CqlSession session;
  private final PreparedStatement add;
  private final PreparedStatement totals;

  public Orders(CqlSession session) {
    this.session = session;
    session.execute(
        "CREATE TABLE IF NOT EXISTS orders (customer int, day date, total decimal, "
            + "PRIMARY KEY (customer, day)) WITH CLUSTERING ORDER BY (day DESC)");
    add =
        session.prepare(
            "INSERT INTO orders (customer, day, total) VALUES (?, ?, ?) IF NOT EXISTS");
    totals = session.prepare("SELECT total FROM orders WHERE customer = ?");
  }

  /** Whether the order is new: a customer has one a day. */
  public boolean add(int customer, LocalDate day, BigDecimal total) {
    return session.execute(add.bind(customer, day, total)).wasApplied();
  }

  public List<BigDecimal> totals(int customer) {
    List<BigDecimal> found = new ArrayList<>();
    session.execute(totals.bind(customer)).forEach(row -> found.add(row.getBigDecimal(0)));
    return found;
  }
}
