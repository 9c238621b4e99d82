import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The dialogs of one partition of a queue, on the side of the target. What must be written is collected for the transaction. */
final class Target {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}");
    private static final long SECOND = 1_000_000;
    private static final long GRACE = 600 * SECOND;
    private static final long DAY = 86_400 * SECOND;
    private static final long GAP = 15 * SECOND;
    private static final int KEY_BYTES = 1_000;
    private static final int RECORD_BYTES = 1_500_000;
    private static final int DESCRIPTION = 3_000;
    private static final int MOST_HELD = 100;
    private static final int HELD_BYTES = 500_000;

    private static final int CONTRACT_NOT_ACCEPTED = -8408;
    private static final int SENT_BY_TARGET = -8457;
    private static final int NOT_CONVERSING = -8462;
    private static final int LIFETIME = -8489;
    private static final int NOT_IN_CONTRACT = -8498;
    private static final int INVALID = -9615;

    private final Topics topics;
    private final String name;
    private final int partition;
    private final Catalog catalog;
    private final Clock clock;
    private final Application application;
    private final Map<String, Dialog> dialogs = new HashMap<>();
    private final Set<String> touched = new LinkedHashSet<>();
    private final List<ProducerRecord<byte[], byte[]>> written = new ArrayList<>();
    private long looked;
    private long logTime;

    Target(Topics topics, String name, int partition, Catalog catalog, Clock clock, Application application) {
        this.topics = topics;
        this.name = name;
        this.partition = partition;
        this.catalog = catalog;
        this.clock = clock;
        this.application = application;
    }

    int partition() {
        return partition;
    }

    List<ProducerRecord<byte[], byte[]>> written() {
        return written;
    }

    void restore(byte[] key, byte[] row) {
        String side = new String(key, StandardCharsets.UTF_8);
        if (row == null) {
            dialogs.remove(side);
        } else {
            dialogs.put(side, Dialog.read(row));
        }
    }

    // -- a record of the queue -------------------------------------------------------------------------------------

    private static final class SetAside extends Exception {
        private static final long serialVersionUID = 1L;

        SetAside(String why) {
            super(why);
        }
    }

    void take(ConsumerRecord<byte[], byte[]> record) {
        logTime = Math.max(logTime, record.timestamp() * 1_000);
        clock.heard(logTime);
        try {
            Envelope envelope = admissible(record);
            // A conversation may have both of its sides in one service.
            String side = envelope.id() + (envelope.fromInitiator() ? "/target" : "/initiator");
            Dialog dialog = dialogs.get(side);
            if (dialog == null) {
                dialog = begun(side, envelope, record);
            } else if (!dialog.over && !isOf(dialog, envelope, record)) {
                throw new SetAside("the record does not belong to the dialog");
            }
            if (dialog != null) {
                touched.add(side);
                receive(dialog, envelope, record.offset());
            }
        } catch (SetAside | Avro.Broken why) {
            letter("set-aside", record.key(), record.value(), record.offset(), null, 0, why.getMessage());
        }
    }

    private Envelope admissible(ConsumerRecord<byte[], byte[]> record) throws SetAside, Avro.Broken {
        if (record.value() == null || record.value().length > RECORD_BYTES) {
            throw new SetAside("the record has no value, or more than " + RECORD_BYTES + " bytes");
        }
        Envelope envelope = Envelope.read(record.value());
        byte[] key = record.key();
        if (key == null || key.length == 0 || key.length > KEY_BYTES || !isText(key)
                || Topics.partition(key, catalog.partitions(name)) != partition || !envelope.toService().equals(name)) {
            throw new SetAside("misrouted");
        }
        int reply = envelope.replyKey().getBytes(StandardCharsets.UTF_8).length;
        if (!NAME.matcher(envelope.fromService()).matches() || !NAME.matcher(envelope.contract()).matches() || reply == 0
                || reply > KEY_BYTES) {
            throw new SetAside("a name or a key is not valid");
        }
        return envelope;
    }

    private static boolean isText(byte[] key) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(key));
            return true;
        } catch (CharacterCodingException error) {
            return false;
        }
    }

    private static boolean isOf(Dialog dialog, Envelope envelope, ConsumerRecord<byte[], byte[]> record) {
        return dialog.key.equals(text(record.key())) && dialog.contract.equals(envelope.contract())
                && dialog.peer.equals(envelope.fromService()) && dialog.peerKey.equals(envelope.replyKey());
    }

    // -- unknown conversations -------------------------------------------------------------------------------------

    /** Returns the new endpoint for a record of an unknown conversation, or null if the record begins none. */
    private Dialog begun(String side, Envelope envelope, ConsumerRecord<byte[], byte[]> record) throws SetAside {
        if (catalog.service(envelope.fromService()) == null) {
            throw new SetAside("the catalog names no such service");
        }
        long appended = record.timestamp() * 1_000;
        if (envelope.acceptUntil() > appended + DAY) {
            throw new SetAside("accept_until is too late");
        }
        Dialog dialog = new Dialog();
        dialog.conversation = envelope.conversation();
        dialog.contract = envelope.contract();
        dialog.peer = envelope.fromService();
        dialog.key = text(record.key());
        dialog.peerKey = envelope.replyKey();
        dialog.acceptUntil = envelope.acceptUntil();
        dialog.expiresAt = envelope.expiresAt();
        boolean isInTime = envelope.fromInitiator() && appended < envelope.acceptUntil();
        if (!envelope.isNumbered()) {
            if (envelope.kind() != Envelope.Kind.ERROR || !isInTime) {
                throw new SetAside("the conversation is not known");
            }
            entomb(side, dialog, envelope);
            if (envelope.seq() != Envelope.NONE) {
                acknowledge(dialog, envelope.seq());
            }
            return null;
        }
        int code = !isInTime ? NOT_CONVERSING
                : envelope.expiresAt() >= 0 && envelope.expiresAt() <= clock.now() ? LIFETIME
                : !accepts().has(envelope.contract()) ? CONTRACT_NOT_ACCEPTED : 0;
        if (code == 0) {
            dialogs.put(side, dialog);
            return dialog;
        }
        entomb(side, dialog, envelope);
        letter("refused", record.key(), record.value(), record.offset(), envelope, code, null);
        Envelope.Prefix answer = new Envelope.Prefix(dialog.conversation, !envelope.fromInitiator(), dialog.contract, name,
                dialog.peer, dialog.key, 0, dialog.expiresAt);
        transmit(dialog, Envelope.error(answer, Envelope.NONE, Envelope.NONE, clock.now(), code, "The dialog does not begin."));
        return null;
    }

    private void entomb(String side, Dialog dialog, Envelope envelope) {
        if (envelope.seq() != Envelope.NONE) {
            dialog.isFirst(envelope.seq());
        }
        bury(dialog);
        dialogs.put(side, dialog);
        touched.add(side);
    }

    private JsonNode accepts() {
        return catalog.service(name).path("accepts");
    }

    // -- envelopes of a dialog -------------------------------------------------------------------------------------

    private void receive(Dialog dialog, Envelope envelope, long offset) {
        if (dialog.over) {
            late(dialog, envelope, offset);
            return;
        }
        switch (envelope.kind()) {
            case MESSAGE, END -> numbered(dialog, envelope, offset);
            case ERROR -> {
                if (envelope.seq() != Envelope.NONE) {
                    dialog.isFirst(envelope.seq());
                }
                application.broken(turn(dialog), envelope.code(), envelope.description());
                close(dialog);
            }
            case RESEND -> fail(dialog, NOT_CONVERSING, "A missing message is not kept by its sender.");
            default -> { } // an ACK: this side keeps nothing that it could forget now
        }
    }

    private void late(Dialog dialog, Envelope envelope, long offset) {
        if (envelope.isNumbered() && dialog.isFirst(envelope.seq()) && envelope.kind() == Envelope.Kind.MESSAGE) {
            letter("after-end", bytes(dialog.key), envelope.value(), offset, envelope, 0, null);
        }
    }

    private void numbered(Dialog dialog, Envelope envelope, long offset) {
        long number = envelope.seq();
        if (number <= dialog.accepted || dialog.held.containsKey(number)) {
            dialog.told = Math.min(dialog.told, dialog.accepted - 1); // the peer may not know it yet
            return;
        }
        if (number > dialog.accepted + 1) {
            hold(dialog, envelope, offset);
            return;
        }
        handle(dialog, envelope, offset);
        while (!dialog.over && dialog.held.containsKey(dialog.accepted + 1)) {
            Dialog.Held next = dialog.held.remove(dialog.accepted + 1);
            handle(dialog, read(next), next.offset);
        }
        dialog.gapSince = dialog.held.isEmpty() ? 0 : clock.now();
    }

    private void hold(Dialog dialog, Envelope envelope, long offset) {
        long bytes = dialog.held.values().stream().mapToLong(held -> held.value.length).sum() + envelope.value().length;
        if (dialog.held.size() >= MOST_HELD || bytes > HELD_BYTES) {
            if (envelope.kind() == Envelope.Kind.MESSAGE) {
                letter("held-at-end", bytes(dialog.key), envelope.value(), offset, envelope, NOT_CONVERSING, null);
            }
            fail(dialog, NOT_CONVERSING, "Too many messages arrived ahead of a missing one.");
            dialog.isFirst(envelope.seq());
            return;
        }
        Dialog.Held held = new Dialog.Held();
        held.offset = offset;
        held.value = envelope.value();
        if (dialog.held.isEmpty()) {
            dialog.gapSince = clock.now();
        }
        dialog.held.put(envelope.seq(), held);
    }

    private void handle(Dialog dialog, Envelope envelope, long offset) {
        dialog.accepted = envelope.seq();
        if (envelope.kind() == Envelope.Kind.END) {
            application.ended(turn(dialog));
            close(dialog);
            return;
        }
        int code = breach(accepts().path(dialog.contract), envelope.messageType());
        String why = "The message does not fit the contract.";
        if (code == 0) {
            try {
                application.message(turn(dialog), envelope.messageType(), object(envelope));
                return;
            } catch (IOException | IllegalArgumentException error) {
                code = INVALID;
                why = error.getMessage();
            }
        }
        letter("breach", bytes(dialog.key), envelope.value(), offset, envelope, code, null);
        fail(dialog, code, why);
    }

    private static JsonNode object(Envelope envelope) throws IOException {
        JsonNode body = Dialog.JSON.readTree(envelope.body());
        if (!envelope.contentType().split(";")[0].equals("application/json") || !body.isObject()) {
            throw new IllegalArgumentException("the body is not a JSON object");
        }
        return body;
    }

    /** Returns 0 if the initiator may send this type, else the code with which the dialog breaks. */
    private static int breach(JsonNode contract, String type) {
        if (names(contract.path("initiator"), type) || names(contract.path("any"), type)) {
            return 0;
        }
        return names(contract.path("target"), type) ? SENT_BY_TARGET : NOT_IN_CONTRACT;
    }

    private static boolean names(JsonNode list, String type) {
        for (JsonNode each : list) {
            if (each.asText().equals(type)) {
                return true;
            }
        }
        return false;
    }

    // -- the end of a dialog ---------------------------------------------------------------------------------------

    /** Breaks the dialog from this side. */
    private void fail(Dialog dialog, int code, String description) {
        dialog.told = dialog.accepted;
        String text = description.substring(0, Math.min(description.length(), DESCRIPTION));
        transmit(dialog, Envelope.error(prefix(dialog), dialog.accepted, dialog.sent, clock.now(), code, text));
        application.broken(turn(dialog), code, text);
        close(dialog);
    }

    /** Ends this side. What is held becomes dead letters; a tombstone stays. */
    private void close(Dialog dialog) {
        if (dialog.told < dialog.accepted) {
            acknowledge(dialog, dialog.accepted);
        }
        dialog.held.forEach((number, held) -> {
            Envelope envelope = read(held);
            if (dialog.isFirst(number) && envelope.kind() == Envelope.Kind.MESSAGE) {
                letter("held-at-end", bytes(dialog.key), held.value, held.offset, envelope, 0, null);
            }
        });
        dialog.held.clear();
        bury(dialog);
    }

    private void bury(Dialog dialog) {
        dialog.over = true;
        dialog.gapSince = 0;
        dialog.state = Dialog.JSON.createObjectNode();
        dialog.forgetAt = Math.max(dialog.acceptUntil, Math.max(logTime, clock.now())) + GRACE;
    }

    // -- the end of a step -----------------------------------------------------------------------------------------

    /** Lets deadlines pass, acknowledges what no answer has acknowledged, and writes the rows of the dialogs that changed. */
    void endStep() {
        if (clock.now() >= looked + SECOND) {
            looked = clock.now();
            List.copyOf(dialogs.keySet()).forEach(this::look);
        }
        for (String side : touched) {
            Dialog dialog = dialogs.get(side);
            if (dialog != null && !dialog.over && dialog.told < dialog.accepted) {
                acknowledge(dialog, dialog.accepted);
            }
            byte[] row = dialog == null ? null : dialog.row();
            written.add(new ProducerRecord<>(topics.state(name), partition, bytes(side), row));
        }
        touched.clear();
    }

    private void look(String side) {
        Dialog dialog = dialogs.get(side);
        long now = clock.now();
        if (dialog.over) {
            if (logTime >= dialog.forgetAt) { // only records that were read tell that no older one can come
                dialogs.remove(side);
                touched.add(side);
            }
        } else if (dialog.expiresAt >= 0 && dialog.expiresAt <= now) {
            application.broken(turn(dialog), LIFETIME, "The dialog has exceeded its lifetime."); // the peer sees it by itself
            close(dialog);
            touched.add(side);
        } else if (dialog.gapSince != 0 && now >= dialog.gapSince + GAP) {
            fail(dialog, NOT_CONVERSING, "A message is missing and was not sent again.");
            touched.add(side);
        }
    }

    // -- what is written -------------------------------------------------------------------------------------------

    private Application.Turn turn(Dialog dialog) {
        return new Application.Turn() {
            @Override
            public String conversation() {
                ByteBuffer id = ByteBuffer.wrap(dialog.conversation);
                return new UUID(id.getLong(), id.getLong()).toString();
            }

            @Override
            public ObjectNode state() {
                return dialog.applicationState();
            }

            @Override
            public void send(String type, JsonNode body) {
                dialog.told = dialog.accepted;
                dialog.sent++;
                transmit(dialog, Envelope.message(prefix(dialog), dialog.sent, dialog.accepted, clock.now(), type, "application/json",
                        bytes(body.toString())));
            }

            @Override
            public void append(String topic, String key, String value) {
                written.add(new ProducerRecord<>(topic, bytes(key), bytes(value)));
            }
        };
    }

    private Envelope.Prefix prefix(Dialog dialog) {
        return new Envelope.Prefix(dialog.conversation, false, dialog.contract, name, dialog.peer, dialog.key, dialog.acceptUntil,
                dialog.expiresAt);
    }

    private void acknowledge(Dialog dialog, long number) {
        dialog.told = number;
        transmit(dialog, Envelope.ack(prefix(dialog), number, clock.now()));
    }

    private void transmit(Dialog dialog, Envelope envelope) {
        byte[] key = bytes(dialog.peerKey);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topics.queue(dialog.peer),
                Topics.partition(key, catalog.partitions(dialog.peer)), key, envelope.value());
        written.add(record);
    }

    private void letter(String reason, byte[] key, byte[] value, long offset, Envelope envelope, int code, String why) {
        ProducerRecord<byte[], byte[]> letter = new ProducerRecord<>(topics.deadLetter(name), partition, key, value);
        Map<String, String> headers = new HashMap<>(Map.of("dl.reason", reason, "dl.source-topic", topics.queue(name),
                "dl.source-partition", "" + partition, "dl.source-offset", "" + offset, "dl.failed-at", "" + clock.now()));
        if (envelope != null) {
            headers.putAll(Map.of("dl.conversation", envelope.id(), "dl.from-initiator", "" + envelope.fromInitiator(),
                    "dl.sequence", "" + envelope.seq(), "dl.message-type", envelope.messageType()));
        }
        if (code != 0) {
            headers.put("dl.code", "" + code);
        }
        if (why != null) {
            headers.put("dl.exception-message", why);
        }
        headers.forEach((header, text) -> letter.headers().add(header, bytes(text)));
        written.add(letter);
    }

    private static Envelope read(Dialog.Held held) {
        try {
            return Envelope.read(held.value);
        } catch (Avro.Broken impossible) {
            throw new IllegalStateException(impossible); // it was read before it was held
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
