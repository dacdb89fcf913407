package nereid.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Socket;
import org.junit.jupiter.api.Test;

@NereidTest(options = "--smp=2")
class NereidNodeTest {
  @Test
  void aStartedNodeTakesConnectionsAndEnds() throws IOException {
    NereidNode node = NereidNode.start();
    try (Socket socket = new Socket()) {
      socket.connect(node.address());
    }
    node.close();
    assertFalse(node.isRunning());
  }

  @Test
  void aNodeThatDoesNotStartSaysWhy() {
    IOException error =
        assertThrows(IOException.class, () -> NereidNode.start("--no-such-option=1"));
    assertTrue(error.getMessage().contains("no-such-option"), error.getMessage());
  }

  @Test
  void theFirstLineIsParsed() throws IOException {
    assertEquals("7", NereidNode.parse("{\"host\": \"::1\", \"port\": 7, \"x\": null}").get("port"));
    assertTrue(NereidNode.parse("").isEmpty());
  }

  @Test
  void testsWithoutADriverGetTheNode(NereidNode node) {
    assertTrue(node.isRunning() && 0 < node.apiPort());
  }
}
