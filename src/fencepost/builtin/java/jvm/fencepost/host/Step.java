package fencepost.host;

import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** What a chain does with each record: one transform, predicate or converter. */
@SuppressWarnings({"unchecked", "rawtypes"})
record Step(JavaClass described, Plugins plugins, Action action) {
    /** "described" has the "role", the "java_class", and the "prefix" of its keys in the config. */
    static Step of(Map<?, ?> described, Plugins plugins, boolean isSource) throws Exception {
        JavaClass found = JavaClass.of(described.get("java_class"));
        String role = (String) described.get("role");
        Map<String, Object> own = plugins.under((String) described.get("prefix"));
        boolean isKey = role.equals("key");
        switch (role) {
            case "choose": {
                Predicate predicate = plugins.configured(found, Predicate.class, own);
                boolean isNegated = Boolean.TRUE.equals(described.get("is_negated"));
                return new Step(found, plugins, (record, isChosen, row) -> {
                    isChosen[row] = predicate.test(record) != isNegated;
                    return record;
                });
            }
            case "transform": {
                own.remove("predicate");
                own.remove("negate");
                Transformation transform = plugins.configured(found, Transformation.class, own);
                boolean isConditional = Boolean.TRUE.equals(described.get("is_conditional"));
                return new Step(found, plugins, (record, isChosen, row) ->
                        isConditional && !isChosen[row] ? record : transform.apply(record));
            }
            case "header": {
                HeaderConverter converter = plugins.headerConverter(found, own);
                return new Step(found, plugins, (record, isChosen, row) ->
                        with(record, isSource ? Records.connect(Conversion.raw(record, converter))
                                : Conversion.connect(record.topic(), Records.raw(record.headers()), converter)));
            }
            default: {
                Converter converter = plugins.converter(found, own, isKey);
                return new Step(found, plugins, (record, isChosen, row) ->
                        isSource ? toBytes(record, converter, isKey) : toConnect(record, converter, isKey));
            }
        }
    }

    ConnectRecord<?> apply(ConnectRecord<?> record, boolean[] isChosen, int row) throws Exception {
        return plugins.swapped(described, () -> action.apply(record, isChosen, row));
    }

    private static ConnectRecord with(ConnectRecord record, ConnectHeaders headers) {
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                record.valueSchema(), record.value(), record.timestamp(), headers);
    }

    /** Headers that Python is still to convert would be of no use to the converter: the record comes a second time. */
    private static ConnectRecord toBytes(ConnectRecord<?> record, Converter converter, boolean isKey) {
        Schema schema = isKey ? record.keySchema() : record.valueSchema();
        for (Header each : record.headers()) {
            if (each.schema() != Records.RAW) {
                return record;
            }
        }
        if (schema == Records.RAW) {
            return record;
        }
        RecordHeaders headers = Records.raw(record.headers());
        byte[] data = converter.fromConnectData(record.topic(), headers, schema, isKey ? record.key() : record.value());
        return with(record, isKey, new SchemaAndValue(Records.RAW, data), Records.connect(headers));
    }

    private static ConnectRecord toConnect(ConnectRecord<?> record, Converter converter, boolean isKey) {
        byte[] data = (byte[]) (isKey ? record.key() : record.value());
        RecordHeaders headers = Records.raw(record.headers());
        return with(record, isKey, converter.toConnectData(record.topic(), headers, data), Records.connect(headers));
    }

    private static ConnectRecord with(ConnectRecord record, boolean isKey, SchemaAndValue found, ConnectHeaders headers) {
        return record.newRecord(record.topic(), record.kafkaPartition(),
                isKey ? found.schema() : record.keySchema(), isKey ? found.value() : record.key(),
                isKey ? record.valueSchema() : found.schema(), isKey ? record.value() : found.value(),
                record.timestamp(), headers);
    }

    /** Return the record that is to go on; null if it is filtered. */
    private interface Action {
        ConnectRecord<?> apply(ConnectRecord record, boolean[] isChosen, int row);
    }
}
