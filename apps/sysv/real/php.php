<?php
// php.php P KEY - P processes by PHP's shmop, sysvsem and sysvmsg.
[$all, $key] = [(int) $argv[1], (int) $argv[2]];
$rounds = 200;

function wrong(string $what): never
{
    fwrite(STDERR, "php: $what\n");
    exit(1);
}

$lock = sem_get($key, 1, 0600, true) ?: wrong('sem_get');
$memory = shmop_open($key, 'c', 0600, 8192) ?: wrong('shmop_open');
$queue = msg_get_queue($key, 0600) ?: wrong('msg_get_queue');

function word(int $at): int
{
    global $memory;
    return unpack('q', shmop_read($memory, 8 * $at, 8))[1];
}

function add(int $at): int
{
    global $memory, $lock;
    sem_acquire($lock) || wrong('sem_acquire');
    $now = word($at) + 1;
    shmop_write($memory, pack('q', $now), 8 * $at);
    sem_release($lock) || wrong('sem_release');
    return $now;
}

function all_come(int $at): void
{
    global $all;
    add($at);
    for ($i = 0; word($at) != $all; $i++) {
        $i < 60000 || wrong("not all came to $at");
        usleep(1000);
    }
}

$rank = add(0) - 1;
all_come(1);
for ($i = 0; $i < $rounds; $i++) {
    add(700);
}
all_come(2);
word(700) == $all * $rounds || wrong('the counter is ' . word(700) . ', must be ' . $all * $rounds);
msg_send($queue, ($rank + 1) % $all + 1, "from $rank") || wrong('msg_send');
msg_receive($queue, $rank + 1, $type, 1000, $text) || wrong('msg_receive');
$last = ($rank + $all - 1) % $all;
$type == $rank + 1 && $text === "from $last" || wrong("a message of type $type: $text");
all_come(3);
if (add(4) == $all) {
    shmop_delete($memory);
    msg_remove_queue($queue);
    sem_remove($lock);
    echo "php: $all processes, counter ", $all * $rounds, ", a message each: ok\n";
}
