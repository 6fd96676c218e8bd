package fencepost.host;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
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
            key = plugins.converter("key.converter");
            value = plugins.converter("value.converter");
            header = plugins.headerConverter();
            chain = new Chain<>(plugins);
        } catch (Throwable error) {
            plugins.close();
            throw error;
        }
    }

    PluginFigures figures() {
        return plugins.figures;
    }

    Headers headers(R record) {
        RecordHeaders found = new RecordHeaders();
        for (Header each : record.headers()) {
            found.add(each.key(), header.fromConnectHeader(record.topic(), each.key(), each.schema(), each.value()));
        }
        return found;
    }

    @Override
    public void close() {
        plugins.close();
    }
}
