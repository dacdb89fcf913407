package orders;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import nereid.junit.NereidTest;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

@NereidTest
class OrdersTest {
  private static final LocalDate MONDAY = LocalDate.of(2026, 11, 23);
  private Orders orders;

  @BeforeEach
  void open(CqlSession session) {
    orders = new Orders(session);
  }

  @Test
  void ordersComeNewestFirst() {
    assertTrue(orders.add(7, MONDAY, new BigDecimal("19.90")));
    assertTrue(orders.add(7, MONDAY.plusDays(1), new BigDecimal("5")));
    assertEquals(List.of(new BigDecimal("5"), new BigDecimal("19.90")), orders.totals(7));
  }

  @Test
  void aCustomerHasOneOrderADay() {
    assertTrue(orders.add(7, MONDAY, new BigDecimal("19.90")));
    assertFalse(orders.add(7, MONDAY, BigDecimal.ONE));
    assertEquals(List.of(new BigDecimal("19.90")), orders.totals(7));
  }

  @Test
  void eachTestBeginsWithAnEmptyKeyspace(CqlSession session) {
    assertTrue(orders.totals(7).isEmpty());
  }
}
