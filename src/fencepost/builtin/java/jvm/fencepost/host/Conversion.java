package fencepost.host;

import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Transforms, converters and error handling, as a connector's config says. */
final class Conversion<R extends ConnectRecord<R>> implements AutoCloseable {
    final Chain<R> chain;
    final Converter key;
    final Converter value;
    final HeaderConverter header;
    final Tolerance tolerance;
    private final Plugins plugins;

    Conversion(Plugins plugins) throws Exception {
        this.plugins = plugins;
        tolerance = new Tolerance(plugins.config);
        try {
            key = plugins.converter(plugins.named("key.converter"), plugins.under("key.converter."), true);
            value = plugins.converter(plugins.named("value.converter"), plugins.under("value.converter."), false);
            header = plugins.headerConverter(plugins.named("header.converter"), plugins.under("header.converter."));
            chain = new Chain<>(plugins);
        } catch (Throwable error) {
            plugins.close();
            throw error;
        }
    }

    PluginFigures figures() {
        return plugins.figures;
    }

    /** Return the headers of a record that goes to Kafka. */
    static RecordHeaders raw(ConnectRecord<?> record, HeaderConverter converter) {
        RecordHeaders found = new RecordHeaders();
        for (Header each : record.headers()) {
            found.add(each.key(), converter.fromConnectHeader(record.topic(), each.key(), each.schema(), each.value()));
        }
        return found;
    }

    /** Return the headers of a record that comes from Kafka. */
    static ConnectHeaders connect(String topic, RecordHeaders raw, HeaderConverter converter) {
        ConnectHeaders found = new ConnectHeaders();
        raw.forEach(each -> found.add(each.key(), converter.toConnectHeader(topic, each.key(), each.value())));
        return found;
    }

    @Override
    public void close() {
        plugins.close();
    }
}
