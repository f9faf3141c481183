# perl.pl P KEY - P processes of perl, by its built-in System V calls: a counter in shared memory under a
# semaphore (each shmread attaches and detaches), then a message to the next process and one from the last.
use strict;
use warnings;
use IPC::SysV qw(IPC_CREAT IPC_EXCL IPC_STAT IPC_RMID SETVAL GETVAL SEM_UNDO);
use IPC::Semaphore;

my ($all, $key) = @ARGV;
my ($rounds, $bytes) = (100, 8192);

sub wrong { die "perl: @_\n" }

my $sem = semget($key, 1, IPC_CREAT | IPC_EXCL | 0600);
if (defined $sem) {
    semop($sem, pack("s!3", 0, 1, 0)) or wrong("semop: $!");    # sem_otime: ready
} else {
    for (1 .. 10000) {
        $sem = semget($key, 1, 0);
        last if defined $sem && IPC::Semaphore->new($key, 1, 0)->stat->otime != 0;
        select(undef, undef, undef, 0.002);
    }
}
my $shm = shmget($key, $bytes, IPC_CREAT | 0600) // wrong("shmget: $!");
my $msg = msgget($key, IPC_CREAT | 0600) // wrong("msgget: $!");

sub locked {
    my $what = shift;
    semop($sem, pack("s!3", 0, -1, SEM_UNDO)) or wrong("semop: $!");
    my $result = $what->();
    semop($sem, pack("s!3", 0, 1, SEM_UNDO)) or wrong("semop: $!");
    return $result;
}

sub word {
    my $at = shift;
    my $buffer;
    shmread($shm, $buffer, 4 * $at, 4) or wrong("shmread: $!");
    return unpack("l", $buffer);
}

sub add {
    my ($at, $by) = @_;
    return locked(sub {
        my $now = word($at) + $by;
        shmwrite($shm, pack("l", $now), 4 * $at, 4) or wrong("shmwrite: $!");
        return $now;
    });
}

sub all_come {
    my $at = shift;
    add($at, 1);
    for (1 .. 60000) {
        return if locked(sub { word($at) }) == $all;
        select(undef, undef, undef, 0.001);
    }
    wrong("not all came to $at");
}

my $rank = add(0, 1) - 1;
all_come(1);
add(1500, 1) for 1 .. $rounds;    # in the second page
all_come(2);
my $count = word(1500);
wrong("the counter is $count, must be " . $all * $rounds) if $count != $all * $rounds;
my $next = ($rank + 1) % $all;
my $last = ($rank + $all - 1) % $all;
msgsnd($msg, pack("l! a*", $next + 1, "from $rank"), 0) or wrong("msgsnd: $!");
my $got;
msgrcv($msg, $got, 100, $rank + 1, 0) or wrong("msgrcv: $!");
my ($type, $text) = unpack("l! a*", $got);
wrong("a message of type $type: $text") if $type != $rank + 1 || $text ne "from $last";
all_come(3);
if (add(4, 1) == $all) {
    shmctl($shm, IPC_RMID, 0) or wrong("shmctl: $!");
    msgctl($msg, IPC_RMID, 0) or wrong("msgctl: $!");
    semctl($sem, 0, IPC_RMID, 0) or wrong("semctl: $!");
    print "perl: $all processes, counter $count, a message each: ok\n";
}
