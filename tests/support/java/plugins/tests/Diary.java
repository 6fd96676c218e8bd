package tests;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.kafka.connect.errors.ConnectException;

/** Files in which plug-ins write what happens to them. */
final class Diary {
    private Diary() {
    }

    /** Write at the end of a file; half of a character is written as "?". */
    static void append(Path file, CharSequence text) {
        byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
        try {
            Files.write(file, bytes, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new ConnectException(error);
        }
    }
}
