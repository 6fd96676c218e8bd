package fencepost.host;

import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;

/** The codes in the form of values that Python's module "value_writer" describes. */
final class ValueForm {
    /** The kinds of values without a schema, in the order in which they are written. */
    static final int BOOLEAN = 1;
    static final int INTEGER = 2;
    static final int FLOAT = 3;
    static final int TEXT = 4;
    static final int BYTES = 5;
    static final int LIST = 6;
    static final int MAP = 7;
    static final int LARGE_INTEGER = 8;
    static final int DECIMAL = 9;
    static final int TIME = 10;

    /** The flags of a schema. */
    static final int OPTIONAL = 1;
    static final int HAS_DEFAULT = 2;
    static final int HAS_NAME = 4;
    static final int HAS_VERSION = 8;
    static final int HAS_DOC = 16;

    /** How deep columns are in columns, at most: Python could not read more. Its "value_writer" has the same. */
    static final int MOST_DEPTH = 500;

    private ValueForm() {
    }

    /** Return as what kind the values of a schema of bytes are written. */
    static int kindOfBytes(Schema schema) {
        return Decimal.LOGICAL_NAME.equals(schema.name()) ? DECIMAL : BYTES;
    }
}
