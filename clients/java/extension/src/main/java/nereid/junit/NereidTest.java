package nereid.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A class of tests that need a node. All classes with the same options share one, for the whole test
 * run.
 *
 * <p>Tests and their set-up methods may take a {@link NereidNode}, and a {@code CqlSession} in a
 * keyspace that is made for each test and dropped after it.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(NereidExtension.class)
public @interface NereidTest {
  /** Options of the command line for the node, such as {@code --smp=2}. */
  String[] options() default {};
}
