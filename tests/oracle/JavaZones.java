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
 * With "names": for each name of a zone, by how many minutes it is ahead of UTC, and since which year, 1970 at least.
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
    private static final String[] ZONES = {"X", "XX", "XXX", "z", "zzzz", "Z", "ZZZ"};

    public static void main(String[] arguments) {
        if (arguments.length > 0) {
            names().forEach((name, offset) -> System.out.println(name + "\t" + offset));
            return;
        }
        for (String zone : ZONES) {
            for (String[] texts : new String[][] {OFFSETS, NAMES}) {
                for (String text : texts) {
                    for (String day : new String[] {"2020-01-15", "2020-07-15"}) {
                        String pattern = "yyyy-MM-dd HH:mm" + zone;
                        String whole = day + " 12:00" + text;
                        System.out.println(pattern + "\t" + whole + "\t" + read(pattern, whole));
                    }
                }
            }
            System.out.println("yyyy-MM-dd HH:mm" + zone + "\t\t" + format("yyyy-MM-dd HH:mm" + zone).format(1594814400000L));
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
        while (year > 1970 && found.equals(minutes(name, year - 1))) {
            year--;
        }
        return year == 2037 ? "" : found + "\t" + (year == 1970 ? year : year + 1);  // it may have changed within a year
    }

    /** Return null if the offset is another one in winter, or only a part of the name is read. */
    private static Long minutes(String name, int year) {
        Long found = null;
        for (String day : new String[] {"-01-15", "-07-15"}) {
            String begin = year + day + " 12:00 ";
            ParsePosition place = new ParsePosition(0);
            java.util.Date read = format("yyyy-MM-dd HH:mm z").parse(begin + name, place);
            if (read == null || place.getIndex() != begin.length() + name.length()) {
                return null;
            }
            long utc = java.time.LocalDate.parse(year + day).toEpochDay() * 86_400_000 + 43_200_000;
            long minutes = (utc - read.getTime()) / 60_000;
            if (found != null && found != minutes) {
                return null;
            }
            found = minutes;
        }
        return found;
    }
}
