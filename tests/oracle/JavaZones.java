import java.text.DateFormatSymbols;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.Locale;
import java.util.Map;
import java.util.TimeZone;
import java.util.TreeMap;

/**
 * Says how SimpleDateFormat reads and writes zones, as Kafka's TimestampConverter makes it: in UTC.
 *
 * With "names": for each name of a zone, by how many minutes it is ahead of UTC, and since which year; empty: always.
 * Without arguments: for patterns and texts, milliseconds or "refused", and what is written for a moment. Lines, by tabs.
 */
public final class JavaZones {
    private static final String[] OFFSETS = {
        "Z", "z", "+05", "+5", "+05:30", "+0530", "+053", "-08", "-08:00", "-0800", "+00", "+0000", "+23:59", "+24", "+2400",
        "+05:60", "+5:30", "05:30", "+", "-", "+ab", "+05:", "+05:3", "+0530Z", "Zulu", "GMT", "gmt", "GMT+2", "GMT+2:00",
        "GMT+02:00", "GMT-02:30", "GMT+0200", "GMT+", "GMT+24:00", "UTC", "utc", "UTC+2", "UTC+02:00", "UT", "ESTX", "",
        "Europe/Berlin", "+05 30", " +0530", "X", "A", "EST5EDT", "\u221205:30",
    };
    private static final String[] NAMES = {
        "CET", "CEST", "EST", "EDT", "PST", "PDT", "MST", "MDT", "CST", "CDT", "BST", "IST", "JST", "MSK", "WET", "WEST", "EET",
        "EEST", "AEST", "AEDT", "NZST", "HST", "AKST", "SGT", "HKT", "KST", "cet", "Pst", "Central European Time",
        "Central European Standard Time", "Central European Summer Time", "Eastern Standard Time", "Eastern Daylight Time",
        "Pacific Standard Time", "Pacific Daylight Time", "Coordinated Universal Time", "Greenwich Mean Time",
        "India Standard Time", "Japan Standard Time", "Moscow Standard Time",
    };
    private static final String[] NEVER_MOVED = {"UTC", "GMT", "gmt", "GMT-02:30", "Coordinated Universal Time"};
    private static final String[] ZONES = {"X", "XX", "XXX", "z", "zzzz", "Z", "ZZZ"};

    public static void main(String[] arguments) {
        if (arguments.length > 0) {
            names().forEach((name, offset) -> System.out.println(name + "\t" + offset));
            return;
        }
        for (String zone : ZONES) {
            for (String[] texts : new String[][] {OFFSETS, NAMES}) {
                show(zone, texts, "2020-01-15", "2020-07-15");
            }
            show(zone, NEVER_MOVED, "1969-12-31", "1900-01-01", "0001-01-15");
            System.out.println("yyyy-MM-dd HH:mm" + zone + "\t\t" + format("yyyy-MM-dd HH:mm" + zone).format(1594814400000L));
        }
    }

    private static void show(String zone, String[] texts, String... days) {
        for (String text : texts) {
            for (String day : days) {
                String pattern = "yyyy-MM-dd HH:mm" + zone;
                String whole = day + " 12:00" + text;
                System.out.println(pattern + "\t" + whole + "\t" + read(pattern, whole));
            }
        }
    }

    private static SimpleDateFormat format(String pattern) {
        SimpleDateFormat made = new SimpleDateFormat(pattern, Locale.US);
        made.setTimeZone(TimeZone.getTimeZone("UTC"));
        return made;
    }

    private static String read(String pattern, String text) {
        try {
            return String.valueOf(format(pattern).parse(text).getTime());
        } catch (java.text.ParseException error) {
            return "refused";
        }
    }

    private static Map<String, String> names() {
        Map<String, String> found = new TreeMap<>();
        for (String[] zone : DateFormatSymbols.getInstance(Locale.US).getZoneStrings()) {
            for (int i = 1; i <= 4; i++) {
                String name = zone[i].toLowerCase(Locale.ROOT);
                if (!found.containsKey(name)) {
                    found.put(name, offset(name));
                }
            }
        }
        found.values().removeIf(String::isEmpty);
        return found;
    }

    /** Return the offset in minutes, and the first year since which it is that; empty if only a part of the name is read. */
    private static String offset(String name) {
        Long found = minutes(name, 2037);
        if (found == null) {
            return "";
        }
        int year = 2037;
        while (year > 1 && found.equals(minutes(name, year - 1))) {
            year--;
        }
        return year == 2037 ? "" : found + "\t" + (year == 1 ? "" : year + 1);  // it may have changed within a year
    }

    /** Return null if the offset is another one in winter, or only a part of the name is read. */
    private static Long minutes(String name, int year) {
        Long found = null;
        for (String day : new String[] {"-01-15", "-07-15"}) {
            String begin = String.format("%04d", year) + day + " 12:00 ";
            ParsePosition place = new ParsePosition(0);
            java.util.Date read = format("yyyy-MM-dd HH:mm z").parse(begin + name, place);
            if (read == null || place.getIndex() != begin.length() + name.length()) {
                return null;
            }
            long ahead = format("yyyy-MM-dd HH:mm").parse(begin, new ParsePosition(0)).getTime() - read.getTime();
            if (ahead % 60_000 != 0 || (found != null && found != ahead / 60_000)) {
                return null;
            }
            found = ahead / 60_000;
        }
        return found;
    }
}
