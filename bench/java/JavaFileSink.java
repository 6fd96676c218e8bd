import org.apache.kafka.connect.file.FileStreamSinkConnector;

/** Kafka's file sink, under a name that Fencepost has no connector of its own for. */
public class JavaFileSink extends FileStreamSinkConnector {
}
