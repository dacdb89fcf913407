package nereid.junit;

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.extension.ExtensionContext.Store;

/** A session of one test, in a keyspace of its own that goes with it. */
final class TestSession implements Store.CloseableResource {
  private static final AtomicInteger NUMBERS = new AtomicInteger();

  private final CqlSession session;
  private final String keyspace = "test_" + NUMBERS.incrementAndGet();

  TestSession(NereidNode node) {
    try (CqlSession first = builder(node).build()) {
      first.execute(
          "CREATE KEYSPACE " + keyspace + " WITH replication = "
              + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
    }
    session = builder(node).withKeyspace(CqlIdentifier.fromCql(keyspace)).build();
  }

  private static CqlSessionBuilder builder(NereidNode node) {
    return CqlSession.builder()
        .addContactPoint(node.address())
        .withLocalDatacenter("datacenter1");
  }

  CqlSession session() {
    return session;
  }

  @Override
  public void close() {
    session.execute("DROP KEYSPACE " + keyspace);
    session.close();
  }
}
