import org.apache.kafka.connect.file.FileStreamSourceConnector;

/** Kafka's file source, under a name that Fencepost has no connector of its own for. */
public class JavaFileSource extends FileStreamSourceConnector {
}
