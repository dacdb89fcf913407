package nereid.junit;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A throw-away node: a process of its own on free ports of the loopback address, with its data in a
 * temporary folder. The folder goes with the node, and the node goes with the virtual machine that
 * started it, however that ends.
 *
 * <p>The program is the one that the system property {@code nereid} or the environment variable
 * {@code NEREID} names, else {@code nereid} of the PATH.
 */
public final class NereidNode implements AutoCloseable {
  private static final int START_SECONDS = 30;
  private static final int STOP_SECONDS = 30;
  private static final int LOG_CHARACTERS_MAX = 4000;

  private final Process process;
  private final Map<String, String> facts;

  private NereidNode(Process process, Map<String, String> facts) {
    this.process = process;
    this.facts = facts;
  }

  /** Starts a node with options of the command line, such as {@code --smp=2}; waits until it serves. */
  public static NereidNode start(String... options) throws IOException {
    List<String> command = new ArrayList<>(List.of(program(), "--ephemeral"));
    command.addAll(List.of(options));
    // The log goes to a file: nobody reads it while the node runs, and a full pipe would stop it.
    File log = File.createTempFile("nereid-", ".log");
    try {
      Process process = new ProcessBuilder(command).redirectError(log).start();
      process.getOutputStream().close();
      Map<String, String> facts = parse(firstLine(process));
      if (facts.containsKey("port")) {
        return new NereidNode(process, facts);
      }
      process.destroyForcibly();
      String text = Files.readString(log.toPath());
      throw new IOException(
          String.join(" ", command) + " did not start:\n"
              + text.substring(Math.max(0, text.length() - LOG_CHARACTERS_MAX)));
    } finally {
      log.delete();
    }
  }

  private static String program() {
    String named = System.getProperty("nereid", System.getenv("NEREID"));
    return named == null ? "nereid" : named;
  }

  /** The line in which a node names its ports; empty where it ended or is late. */
  private static String firstLine(Process process) {
    BufferedReader reader =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    CompletableFuture<String> line =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return reader.readLine();
              } catch (IOException ended) {
                return null;
              }
            });
    try {
      String read = line.get(START_SECONDS, TimeUnit.SECONDS);
      return read == null ? "" : read;
    } catch (Exception late) {
      return "";
    }
  }

  /** The values of a flat JSON object; empty for anything else. */
  static Map<String, String> parse(String line) throws IOException {
    Map<String, String> values = new HashMap<>();
    try (JsonParser parser = new JsonFactory().createParser(line)) {
      while (parser.nextToken() != null) {
        if (parser.currentToken() == JsonToken.FIELD_NAME) {
          String name = parser.currentName();
          parser.nextToken();
          values.put(name, parser.getText());
        }
      }
    }
    return values;
  }

  /** The address that drivers connect to. */
  public InetSocketAddress address() {
    return new InetSocketAddress(facts.get("host"), port("port"));
  }

  /** The port of the REST API. */
  public int apiPort() {
    return port("api_port");
  }

  public boolean isRunning() {
    return process.isAlive();
  }

  private int port(String name) {
    return Integer.parseInt(facts.get(name));
  }

  /** Ends the node and removes its data. */
  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException stop) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
