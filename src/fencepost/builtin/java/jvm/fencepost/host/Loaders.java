package fencepost.host;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.zip.ZipFile;
import org.apache.kafka.connect.runtime.isolation.PluginClassLoader;

/** The class loaders of plug-ins: one for each location. Thread-safe. */
final class Loaders {
    private static final String IN_NO_JAR = ", which is in none of its jars: the plug-in's directory needs all of them,"
            + " and plugin.path names the directory above it";

    private final Map<List<String>, ClassLoader> loaders = new HashMap<>();

    synchronized ClassLoader of(JavaClass described) {
        if (described.path() == null) {
            return Loaders.class.getClassLoader();
        }
        List<String> key = new ArrayList<>(described.archives());
        key.add(described.path());
        return loaders.computeIfAbsent(key, ignored -> made(described));
    }

    private static ClassLoader made(JavaClass described) {
        try {
            URL[] urls = new URL[described.archives().size()];
            for (int i = 0; i < urls.length; i++) {
                urls[i] = url(described.archives().get(i));
            }
            return new PluginClassLoader(url(described.path()), urls, Loaders.class.getClassLoader());
        } catch (MalformedURLException error) {
            throw new UnusablePluginException("the location " + described.path() + " cannot be a URL", error);
        }
    }

    private static URL url(String path) throws MalformedURLException {
        return Path.of(path).toUri().toURL();
    }

    /** Load a class and create an instance, with its loader as the context loader. What the constructor throws passes. */
    <T> T instance(JavaClass described, Class<T> kind) throws Exception {
        Class<?> found = loaded(described);
        if (!kind.isAssignableFrom(found)) {
            throw unusable(described, "is no " + kind.getName(), null);
        }
        try {
            return kind.cast(swapped(described, () -> found.getDeclaredConstructor().newInstance()));
        } catch (NoSuchMethodException error) {
            throw unusable(described, "has no constructor without arguments", error);
        } catch (IllegalAccessException error) {
            throw unusable(described, "is not public, or its constructor is not", error);
        } catch (InstantiationException error) {
            throw unusable(described, "is abstract", error);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw linkage(described, error.getCause());
        } catch (LinkageError error) {
            throw linkage(described, error);
        }
    }

    private Class<?> loaded(JavaClass described) {
        try {
            return Class.forName(described.name(), false, of(described));
        } catch (ClassNotFoundException error) {
            throw unusable(described, "is not found" + damaged(described), error);
        } catch (LinkageError error) {
            throw linkage(described, error);
        }
    }

    private static RuntimeException linkage(JavaClass described, Throwable error) {
        if (error instanceof UnsupportedClassVersionError) {
            String running = "this host runs Java " + Runtime.version().feature();
            return unusable(described, "was compiled for a newer Java; " + running + ": " + error.getMessage(), error);
        }
        Throwable first = error;
        while (error instanceof ExceptionInInitializerError && first.getCause() != null) {
            first = first.getCause();
        }
        Throwable lack = error instanceof NoClassDefFoundError ? error.getCause() : null;
        if (lack instanceof ClassNotFoundException && described.path() != null) {
            return unusable(described, "needs " + lack.getMessage() + IN_NO_JAR + damaged(described), error);
        }
        return unusable(described, "cannot be linked: " + first + damaged(described), error);
    }

    /** Say which jars cannot be read: a URLClassLoader passes over them in silence. */
    private static String damaged(JavaClass described) {
        StringBuilder found = new StringBuilder();
        for (String archive : Objects.requireNonNullElse(described.archives(), List.<String>of())) {
            File file = new File(archive);
            if (file.isDirectory()) {
                continue;
            }
            try (ZipFile opened = new ZipFile(file)) {
                opened.size();
            } catch (IOException error) {
                found.append("; ").append(archive).append(" cannot be read: ").append(error.getMessage());
            }
        }
        return found.toString();
    }

    private static UnusablePluginException unusable(JavaClass described, String why, Throwable cause) {
        String where = described.path() == null ? "Kafka Connect's own jars" : "plug-in " + described.path();
        return new UnusablePluginException("class " + described.name() + " of " + where + " " + why, cause);
    }

    /** Call something of a plug-in with its loader as the thread's context loader. */
    <T> T swapped(JavaClass described, Callable<T> call) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(of(described));
        try {
            return call.call();
        } finally {
            thread.setContextClassLoader(before);
        }
    }
}
