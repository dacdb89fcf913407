package orders;

import java.time.LocalDate;
import java.util.List;
import org.springframework.data.cassandra.core.mapping.MapId;
import org.springframework.data.cassandra.repository.CassandraRepository;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;

/** A repository whose statements the framework makes from names of methods. */
public interface Orders extends CassandraRepository<Order, MapId> {
  List<Order> findByCustomer(int customer);

  List<Order> findByCustomerAndDayGreaterThan(int customer, LocalDate day);

  Slice<Order> findByCustomer(int customer, Pageable page);

  long countByCustomer(int customer);
}
