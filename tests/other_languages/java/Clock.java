/** Log time: the newest append time that was read, and the time since then on a clock that does not jump. */
final class Clock {
    private long ahead = Clients.now() - steady();

    long now() {
        return steady() + ahead;
    }

    void heard(long logTime) {
        ahead = Math.max(ahead, logTime - steady());
    }

    private static long steady() {
        return System.nanoTime() / 1_000;
    }
}
