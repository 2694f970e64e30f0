package peer;

import java.io.File;
import java.io.IOException;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Apache's classes by their simple names: 5.x moved most of them to other packages, and the names stayed. */
final class Classes {
    private static final Map<String, String> FULL_NAMES = new HashMap<>();

    static {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            String file = new File(path).getName();
            if (file.startsWith("rocketmq-") && file.endsWith(".jar")) {
                index(path);
            }
        }
    }

    private Classes() {
    }

    static boolean has(String simple) {
        return FULL_NAMES.containsKey(simple);
    }

    static Class<?> named(String simple) throws ClassNotFoundException {
        String name = FULL_NAMES.get(simple);
        if (name == null) {
            throw new ClassNotFoundException(simple);
        }
        return Class.forName(name);
    }

    private static void index(String path) {
        try (JarFile jar = new JarFile(path)) {
            for (JarEntry entry : Collections.list(jar.entries())) {
                String name = entry.getName();
                if (name.startsWith("org/apache/rocketmq/") && name.endsWith(".class")) {
                    String full = name.substring(0, name.length() - ".class".length()).replace('/', '.');
                    FULL_NAMES.putIfAbsent(full.substring(full.lastIndexOf('.') + 1), full);
                }
            }
        } catch (IOException error) {
            throw new IllegalStateException(path, error);
        }
    }
}
