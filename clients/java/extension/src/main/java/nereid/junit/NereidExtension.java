package nereid.junit;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Gives tests nodes and sessions; see {@link NereidTest}. */
public final class NereidExtension implements ParameterResolver {
  private static final Namespace SPACE = Namespace.create(NereidExtension.class);
  // By name, so that tests without a driver load no class of one.
  private static final String SESSION = "com.datastax.oss.driver.api.core.CqlSession";

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    Class<?> type = parameter.getParameter().getType();
    return type == NereidNode.class || type.getName().equals(SESSION);
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    NereidNode node = node(context);
    if (parameter.getParameter().getType() == NereidNode.class) {
      return node;
    }
    // In the store of the test: its session is closed, and its keyspace dropped, when the test ends.
    return context
        .getStore(SPACE)
        .getOrComputeIfAbsent("session", ignored -> new TestSession(node), TestSession.class)
        .session();
  }

  private static NereidNode node(ExtensionContext context) {
    String[] options =
        context
            .getTestClass()
            .map(test -> test.getAnnotation(NereidTest.class))
            .map(NereidTest::options)
            .orElse(new String[0]);
    // In the root's store: it ends with the run.
    Store store = context.getRoot().getStore(SPACE);
    return store.getOrComputeIfAbsent(List.of(options), ignored -> start(options), Shared.class).node;
  }

  private static Shared start(String[] options) {
    try {
      return new Shared(NereidNode.start(options));
    } catch (IOException error) {
      throw new ParameterResolutionException(error.getMessage(), error);
    }
  }

  private static final class Shared implements Store.CloseableResource {
    private final NereidNode node;

    private Shared(NereidNode node) {
      this.node = node;
    }

    @Override
    public void close() {
      node.close();
    }
  }
}
