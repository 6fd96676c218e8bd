package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectUtils;

/**
 * Records whose values cross between Java and Python; Python's module "crossing" describes the form.
 *
 * A key, value or header with the schema RAW is the bytes of a converter. Schemas are the same objects in all batches.
 */
final class Records {
    static final Schema RAW = SchemaBuilder.bytes().optional().name("raw").build();

    private static final Schema TEXT = Schema.OPTIONAL_STRING_SCHEMA;
    private static final int NO_SCHEMA = -1;
    private static final int IS_RAW = -2;
    private static final int MOST_SCHEMAS = 1024;

    private final Map<Schema, ByteBuffer> written = new IdentityHashMap<>();
    private final Map<ByteBuffer, Schema> read = new HashMap<>();

    LinkedHashMap<String, ByteBuffer> write(List<? extends ConnectRecord<?>> records) {
        ValueWriter out = new ValueWriter();
        Table table = new Table();
        out.column(TEXT, records.stream().map(ConnectRecord::topic).toList());
        out.column(Schema.OPTIONAL_INT32_SCHEMA, records.stream().map(ConnectRecord::kafkaPartition).toList());
        out.column(Schema.OPTIONAL_INT64_SCHEMA,
                records.stream().map(each -> ConnectUtils.checkAndConvertTimestamp(each.timestamp())).toList());
        table.typed(out, records.stream().map(ConnectRecord::keySchema).toList(),
                records.stream().map(ConnectRecord::key).toList());
        table.typed(out, records.stream().map(ConnectRecord::valueSchema).toList(),
                records.stream().map(ConnectRecord::value).toList());
        List<Header> headers = new ArrayList<>();
        for (ConnectRecord<?> record : records) {
            out.integer(record.headers().size());
            record.headers().forEach(headers::add);
        }
        out.column(TEXT, headers.stream().map(Header::key).toList());
        table.typed(out, headers.stream().map(Header::schema).toList(), headers.stream().map(Header::value).toList());
        LinkedHashMap<String, ByteBuffer> buffers = new LinkedHashMap<>();
        buffers.put("schemas", table.written());
        buffers.put("records", out.taken());
        return buffers;
    }

    private ByteBuffer definition(Schema schema) {
        if (written.size() > MOST_SCHEMAS) {
            written.clear();
        }
        return written.computeIfAbsent(schema, ignored -> {
            ValueWriter out = new ValueWriter();
            out.definition(schema);
            return out.taken();
        });
    }

    /** The schemas of one message, each once. */
    private final class Table {
        private final Map<Schema, Integer> known = new IdentityHashMap<>();
        private final Map<ByteBuffer, Integer> numbers = new LinkedHashMap<>();
        private final List<Schema> schemas = new ArrayList<>();

        private int number(Schema schema) {
            if (schema == null) {
                return NO_SCHEMA;
            }
            return schema == RAW ? IS_RAW : known.computeIfAbsent(schema, ignored ->
                    numbers.computeIfAbsent(definition(schema), absent -> {
                        schemas.add(schema);
                        return schemas.size() - 1;
                    }));
        }

        void typed(ValueWriter out, List<Schema> given, List<Object> values) {
            Map<Integer, List<Object>> byNumber = new TreeMap<>();
            for (int i = 0; i < given.size(); i++) {
                int number = number(given.get(i));
                out.integer(number);
                byNumber.computeIfAbsent(number, ignored -> new ArrayList<>()).add(values.get(i));
            }
            byNumber.forEach((number, column) -> out.column(schema(schemas, number), column));
        }

        ByteBuffer written() {
            ValueWriter out = new ValueWriter();
            out.integer(numbers.size());
            numbers.keySet().forEach(each -> {
                out.integer(each.remaining());
                out.raw(each);
            });
            return out.taken();
        }
    }

    /** Read what a request has; "isSource" says of which kind its records are. */
    @SuppressWarnings("unchecked")
    List<ConnectRecord<?>> read(Request request, boolean isSource) {
        List<Schema> schemas = schemas(request.buffer("schemas"));
        ValueReader in = new ValueReader(request.buffer("records"));
        int rows = (int) request.number("rows", 0);
        List<Object> topics = in.column(TEXT, rows);
        List<Object> partitions = in.column(Schema.OPTIONAL_INT32_SCHEMA, rows);
        List<Object> timestamps = in.column(Schema.OPTIONAL_INT64_SCHEMA, rows);
        Typed keys = new Typed(in, schemas, rows);
        Typed values = new Typed(in, schemas, rows);
        List<ConnectHeaders> headers = headers(in, schemas, rows);
        List<Object> places = in.column(isSource ? null : TEXT, rows);
        List<Object> offsets = in.column(isSource ? null : Schema.INT64_SCHEMA, rows);
        List<Object> readFrom = isSource ? Collections.nCopies(rows, null) : in.column(Schema.INT32_SCHEMA, rows);
        List<ConnectRecord<?>> found = new ArrayList<>(rows);
        for (int i = 0; i < rows; i++) {
            String topic = (String) topics.get(i);
            Integer partition = (Integer) partitions.get(i);
            Long timestamp = (Long) timestamps.get(i);
            if (isSource) {
                found.add(new SourceRecord((Map<String, ?>) places.get(i), (Map<String, ?>) offsets.get(i), topic, partition,
                        keys.schemas.get(i), keys.values.get(i), values.schemas.get(i), values.values.get(i), timestamp,
                        headers.get(i)));
            } else {
                TimestampType type = timestamp == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
                int from = (Integer) readFrom.get(i);
                long offset = (Long) offsets.get(i);
                found.add(new SinkRecord(topic, partition == null ? from : partition, keys.schemas.get(i), keys.values.get(i),
                        values.schemas.get(i), values.values.get(i), offset, timestamp, type, headers.get(i),
                        (String) places.get(i), from, offset));
            }
        }
        return found;
    }

    private static List<ConnectHeaders> headers(ValueReader in, List<Schema> schemas, int rows) {
        int[] counts = new int[rows];
        int total = 0;
        for (int i = 0; i < rows; i++) {
            counts[i] = in.integer();
            total += counts[i];
        }
        List<Object> names = in.column(TEXT, total);
        Typed values = new Typed(in, schemas, total);
        List<ConnectHeaders> found = new ArrayList<>(rows);
        int next = 0;
        for (int count : counts) {
            ConnectHeaders headers = new ConnectHeaders();
            for (int end = next + count; next < end; next++) {
                headers.add((String) names.get(next), values.values.get(next), values.schemas.get(next));
            }
            found.add(headers);
        }
        return found;
    }

    private List<Schema> schemas(ByteBuffer buffer) {
        if (read.size() > MOST_SCHEMAS) {
            read.clear();
        }
        ValueReader in = new ValueReader(buffer);
        List<Schema> found = new ArrayList<>();
        for (int left = in.integer(); left > 0; left--) {
            byte[] definition = in.bytes();
            found.add(read.computeIfAbsent(ByteBuffer.wrap(definition),
                    ignored -> new ValueReader(ByteBuffer.wrap(definition)).definition()));
        }
        return found;
    }

    /** Values with their schemas. */
    private static final class Typed {
        private final List<Schema> schemas = new ArrayList<>();
        private final List<Object> values = new ArrayList<>();

        Typed(ValueReader in, List<Schema> table, int rows) {
            Map<Integer, Integer> counts = new TreeMap<>();
            int[] numbers = new int[rows];
            for (int i = 0; i < rows; i++) {
                numbers[i] = in.integer();
                counts.merge(numbers[i], 1, Integer::sum);
            }
            Map<Integer, Iterator<Object>> columns = new HashMap<>();
            counts.forEach((number, count) -> columns.put(number, in.column(schema(table, number), count).iterator()));
            for (int number : numbers) {
                schemas.add(schema(table, number));
                values.add(columns.get(number).next());
            }
        }
    }

    private static Schema schema(List<Schema> table, int number) {
        return number == IS_RAW ? RAW : number == NO_SCHEMA ? null : table.get(number);
    }

    /** Return headers of bytes as converters take them. */
    static RecordHeaders raw(Headers headers) {
        RecordHeaders found = new RecordHeaders();
        headers.forEach(each -> found.add(each.key(), (byte[]) each.value()));
        return found;
    }

    static ConnectHeaders connect(Iterable<org.apache.kafka.common.header.Header> raw) {
        ConnectHeaders found = new ConnectHeaders();
        raw.forEach(each -> found.add(each.key(), each.value(), RAW));
        return found;
    }
}
