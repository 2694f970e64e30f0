import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs one of Apache's benchmark programs with the header type that is wanted.
 *
 * Each of them asks for binary headers when it begins. The client looks at that wish once, when its class of commands is
 * loaded: load it before, and the wish that counts is ours. Run as a single source file, with no step before.
 */
public final class Launch {
    private Launch() {
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        System.setProperty("rocketmq.serialize.type", arguments[0]);
        Class.forName("org.apache.rocketmq.remoting.protocol.RemotingCommand");
        String[] theirs = Arrays.copyOfRange(arguments, 2, arguments.length);
        try {
            Class.forName(arguments[1]).getMethod("main", String[].class).invoke(null, (Object) theirs);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            System.exit(1);
        }
    }
}
