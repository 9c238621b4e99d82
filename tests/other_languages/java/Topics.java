import org.apache.kafka.common.utils.Utils;

/** Names of topics, and the partition of a key. */
record Topics(String namespace) {
    String queue(String service) {
        return namespace + "." + service + ".queue";
    }

    String commands(String service) {
        return namespace + "." + service + ".commands";
    }

    String state(String service) {
        return namespace + "." + service + ".state";
    }

    String deadLetter(String service) {
        return namespace + "." + service + ".dead-letter";
    }

    String catalog() {
        return namespace + ".catalog";
    }

    static int partition(byte[] key, int count) {
        return Utils.toPositive(Utils.murmur2(key)) % count;
    }
}
