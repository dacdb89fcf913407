package orders;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import org.springframework.data.cassandra.core.cql.Ordering;
import org.springframework.data.cassandra.core.cql.PrimaryKeyType;
import org.springframework.data.cassandra.core.mapping.PrimaryKeyColumn;
import org.springframework.data.cassandra.core.mapping.Table;

/** One row of a table that the framework makes from this class. */
@Table("orders")
public class Order {
  @PrimaryKeyColumn(type = PrimaryKeyType.PARTITIONED)
  public int customer;

  @PrimaryKeyColumn(type = PrimaryKeyType.CLUSTERED, ordering = Ordering.DESCENDING)
  public LocalDate day;

  public BigDecimal total;
  public List<String> items;

  public Order() {}

  public Order(int customer, LocalDate day, String total, List<String> items) {
    this.customer = customer;
    this.day = day;
    this.total = new BigDecimal(total);
    this.items = items;
  }
}
