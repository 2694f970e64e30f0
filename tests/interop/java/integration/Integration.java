import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs tests, and prints a line for each: passed or failed, its name, and why it failed. */
public final class Integration {
    private Integration() {}

    public static void main(String[] names) throws ClassNotFoundException {
        JUnitCore core = new JUnitCore();
        core.addListener(new Teller());
        for (String name : names) {
            core.run(Class.forName(name));
        }
        System.exit(0);
    }

    private static final class Teller extends RunListener {
        private final AtomicBoolean failed = new AtomicBoolean();

        @Override
        public void testStarted(Description test) {
            failed.set(false);
        }

        @Override
        public void testFailure(Failure failure) {
            failed.set(true);
            String why = String.valueOf(failure.getException()).replace('\n', ' ');
            System.out.println("failed " + failure.getDescription().getDisplayName() + " " + why);
        }

        @Override
        public void testFinished(Description test) {
            if (!failed.get()) {
                System.out.println("passed " + test.getDisplayName());
            }
        }
    }
}
