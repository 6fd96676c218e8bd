package fencepost.host;

import java.util.Arrays;
import java.util.List;

/** A class and the plug-in that it is from; "path" is null for the classes of Kafka Connect's own runtime. */
record JavaClass(String name, String path, List<String> archives) {
    @SuppressWarnings("unchecked")
    static JavaClass of(Object described) {
        List<?> parts = (List<?>) described;
        return new JavaClass((String) parts.get(0), (String) parts.get(1), (List<String>) parts.get(2));
    }

    Object described() {
        return Arrays.asList(name, path, archives);
    }

    /** Return another class of the same plug-in. */
    JavaClass sibling(String other) {
        return new JavaClass(other, path, archives);
    }
}
