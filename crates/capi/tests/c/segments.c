/* Named segments: created, attached, detached, removed, with rights and policies. */
#include "check.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

#define PAGE 4096

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static struct mg_segment_info stat_of(const char *name)
{
    struct mg_segment_info stat;

    OK(mg_segment_stat(name, &stat, sizeof stat));
    return stat;
}

static struct mg_segment_info stat_at(const void *p)
{
    struct mg_segment_info stat;

    OK(mg_segment_stat_at(p, &stat, sizeof stat));
    return stat;
}

/* All write their parts, and read all of them. */
static void use(long *words, size_t count, long round)
{
    for (size_t i = (size_t)me; i < count; i += (size_t)nodes)
        words[i] = round + (long)i;
    meet();
    for (size_t i = 0; i < count; i++)
        if (words[i] != round + (long)i)
            FAIL("word %zu is %ld, not %ld", i, words[i], round + (long)i);
    meet();
}

static void life(void)
{
    const size_t bytes = 5 * PAGE - 8;
    void **addresses = SHARE("addresses", 0, mg_calloc((size_t)nodes, sizeof(void *)));
    struct mg_segment_info stat;
    long *words;

    if (me == 0)
        OK(mg_segment_create("life", bytes, 0600, NULL));
    words = MUST(mg_segment_attach("life", MG_SEGMENT_WAIT));
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        CHECK(words[i] == 0);
    addresses[me] = words;
    meet();
    for (int node = 0; node < nodes; node++)
        CHECK(addresses[node] == words);
    use(words, bytes / sizeof *words, 100);

    stat = stat_of("life");
    CHECK(stat.address == words && stat.bytes == bytes && stat.grain == PAGE && stat.library == 0);
    CHECK(stat.consistency == MG_SEQUENTIAL && stat.placement == MG_PLACE_LIBRARY && stat.mode == 0600);
    CHECK(stat.user == geteuid() && stat.group == getegid() && !stat.removed && stat.access == 2);
    CHECK(stat.attached == (uint64_t)nodes && stat.attached_nodes == (uint32_t)nodes);
    CHECK(stat.attaches == (uint64_t)nodes);
    meet();

    CODE(mg_segment_create("life", 1, 0600, NULL), MG_EEXIST);
    CODE(mg_free(words), MG_EPERM);
    NONE(mg_realloc(words, 1), MG_EPERM);
    CODE(mg_segment_detach(words + 1), MG_ENOTSHARED);
    CODE(mg_segment_detach(addresses), MG_ENOTSHARED);

    /* Once more, as often as the first. */
    CHECK(mg_segment_attach("life", MG_SEGMENT_READ_ONLY) == words);
    OK(mg_segment_detach(words));
    use(words, bytes / sizeof *words, 200);

    /* What is removed is there until the last one leaves it. */
    if (me == nodes - 1)
        OK(mg_segment_remove("life"));
    meet();
    CODE(mg_segment_remove("life"), MG_ENOENT);
    NONE(mg_segment_attach("life", 0), MG_ENOENT);
    CODE(mg_segment_stat("life", &stat, sizeof stat), MG_ENOENT);
    CHECK(stat_at(words).removed);
    use(words, bytes / sizeof *words, 300);

    /* Its library site is the first to go. */
    if (me == 0)
        OK(mg_segment_detach(words));
    meet();
    if (me > 0) {
        for (size_t i = 0; i < bytes / sizeof *words; i++)
            CHECK(words[i] == 300 + (long)i);
    }
    meet();
    if (me > 0) {
        words[me] = me;
        CHECK(stat_at(words).attached >= 1);
        OK(mg_segment_detach(words));
    }
    meet();
    CODE(mg_segment_stat_at(words, &stat, sizeof stat), MG_ENOTSHARED);
    CODE(mg_segment_detach(words), MG_ENOTSHARED);
    CODE(mg_touch_read(words, 8), MG_ENOTSHARED);
    meet();
}

/* What a segment holds is there when nobody is attached. */
/* What would write into a segment that is attached to read is refused, as write(2) refuses such a buffer. */
static void reads_only(char *text)
{
    int file = memfd_create("reads_only", MFD_CLOEXEC);

    CHECK(file >= 0 && mg_pwrite(file, text, PAGE, 0) == PAGE);
    errno = 0;
    CHECK(mg_pread(file, text, PAGE, 0) == -1 && errno == EFAULT);
    CHECK(mg_last_error() == MG_EACCES && strstr(mg_strerror(MG_EACCES), "not attached to write"));
    errno = 0;
    CHECK(mg_read(file, text, PAGE) == -1 && errno == EFAULT);
    CODE(mg_prefetch_write(text, PAGE), MG_EACCES);
    CODE(mg_touch_write(text, PAGE), MG_EACCES);
    CODE(mg_write_lock(text, PAGE), MG_EACCES);
    OK(mg_prefetch_read(text, PAGE));
    CHECK(text[0] == 'k');
    CHECK(close(file) == 0);
}

static void kept(void)
{
    const int writer = nodes - 1, reader = nodes > 1 ? nodes - 2 : 0;
    char *text;

    if (me == 0)
        OK(mg_segment_create("kept", 3 * PAGE, 0600, NULL));
    meet();
    if (me == writer) {
        text = MUST(mg_segment_attach("kept", 0));
        memset(text, 'k', 3 * PAGE);
        OK(mg_segment_detach(text));
    }
    meet();
    CHECK(stat_of("kept").attached == 0 && stat_of("kept").access == 0);
    meet();
    if (me == reader) {
        text = MUST(mg_segment_attach("kept", MG_SEGMENT_READ_ONLY));
        for (int i = 0; i < 3 * PAGE; i++)
            CHECK(text[i] == 'k');
        CHECK(stat_of("kept").access == 1);
        reads_only(text);
        CHECK(mg_segment_attach("kept", 0) == text);
        text[PAGE] = 'm'; /* what it was attached to read, and is to write now */
        OK(mg_segment_detach(text));
        text[PAGE]++; /* the attach to read is over, that to write is not */
        CHECK(text[PAGE] == 'n' && stat_of("kept").access == 2);
        OK(mg_segment_detach(text));
        CHECK(stat_of("kept").access == 0);
        OK(mg_segment_remove("kept"));
    }
    meet();
    CODE(mg_segment_remove("kept"), MG_ENOENT);
    meet();
}

static void policies(void)
{
    for (int consistency = MG_SEQUENTIAL; consistency <= MG_AUTO; consistency++)
        for (int placement = MG_PLACE_LIBRARY; placement <= MG_PLACE_BLOCK; placement++) {
            struct mg_segment_policy policy = {.size = sizeof policy};
            const int library = (consistency + placement) % nodes;
            struct mg_segment_info stat;
            long *words;

            policy.consistency = (enum mg_consistency)consistency;
            policy.placement = (enum mg_placement)placement;
            policy.grain = placement == MG_PLACE_SPREAD ? 2 * PAGE + 1 : 0;
            if (me == library)
                OK(mg_segment_create("policy", 6 * PAGE, 0600, &policy));
            words = MUST(mg_segment_attach("policy", MG_SEGMENT_WAIT));
            stat = stat_of("policy");
            CHECK((int)stat.consistency == consistency && (int)stat.placement == placement);
            CHECK(stat.library == library && stat.grain == (size_t)(policy.grain ? 3 * PAGE : PAGE));
            meet();
            for (int round = 0; round < 3; round++)
                use(words, 6 * PAGE / sizeof *words, round);
            /* Half of them leave and come back while the others write. */
            if (me % 2 == 1)
                OK(mg_segment_detach(words));
            meet();
            if (me % 2 == 0)
                words[me] = -1;
            meet();
            if (me % 2 == 1)
                CHECK(mg_segment_attach("policy", 0) == words);
            meet();
            for (int node = 0; node < nodes; node += 2)
                CHECK(words[node] == -1);
            meet();
            use(words, 6 * PAGE / sizeof *words, 7);
            OK(mg_segment_detach(words));
            meet();
            if (me == library)
                OK(mg_segment_remove("policy"));
            meet();
        }
}

/* As many as would fill the shared size many times over, were they not given back. */
static void given_back(void)
{
    char name[16];

    snprintf(name, sizeof name, "mine %d", me);
    for (int round = 0; round < 20; round++) {
        const size_t bytes = (size_t)(round + 1) * 64 * PAGE;
        char *p;

        OK(mg_segment_create(name, bytes, 0600, NULL));
        p = MUST(mg_segment_attach(name, 0));
        CHECK(p[0] == 0 && p[bytes - 1] == 0);
        p[0] = p[bytes - 1] = 1;
        OK(mg_segment_remove(name));
        OK(mg_segment_detach(p));
    }
    meet();
}

static void rights(void)
{
    const bool root = geteuid() == 0;
    long *words;

    if (me == 0) {
        OK(mg_segment_create("open", PAGE, 0644, NULL));
        OK(mg_segment_create("closed", PAGE, 0, NULL));
    }
    meet();
    if (!root)
        NONE(mg_segment_attach("closed", MG_SEGMENT_READ_ONLY), MG_EACCES);
    else if (me == nodes - 1) {
        CHECK(seteuid(65534) == 0);
        NONE(mg_segment_attach("closed", MG_SEGMENT_READ_ONLY), MG_EACCES);
        NONE(mg_segment_attach("open", 0), MG_EACCES);
        CHECK(strstr(mg_strerror(MG_EACCES), "mode 644") != NULL);
        words = MUST(mg_segment_attach("open", MG_SEGMENT_READ_ONLY));
        CHECK(words[0] == 0);
        OK(mg_segment_detach(words));
        CODE(mg_segment_remove("open"), MG_EPERM);
        CHECK(seteuid(0) == 0);
    }
    meet();
    if (me == 0) {
        OK(mg_segment_remove("open"));
        OK(mg_segment_remove("closed"));
    }
    meet();
}

static void wrong(void)
{
    struct mg_segment_policy policy = {.size = sizeof policy};
    struct mg_segment_info stat;
    char name[65];

    memset(name, 'x', 64);
    name[64] = 0;
    CODE(mg_segment_create(NULL, 1, 0600, NULL), MG_EINVAL);
    CODE(mg_segment_create("", 1, 0600, NULL), MG_EINVAL);
    CODE(mg_segment_create(name, 1, 0600, NULL), MG_EINVAL);
    CODE(mg_segment_create("wrong", 0, 0600, NULL), MG_EINVAL);
    CODE(mg_segment_create("wrong", 1, 01600, NULL), MG_EINVAL);
    snprintf(name, sizeof name, "large %d", me);
    CODE(mg_segment_create(name, (size_t)1 << 60, 0600, NULL), MG_ENOMEM);
    NONE(mg_segment_attach(name, 0), MG_ENOENT);
    policy.placement = (enum mg_placement)4;
    CODE(mg_segment_create("wrong", 1, 0600, &policy), MG_EINVAL);
    policy = (struct mg_segment_policy){.size = 8};
    CODE(mg_segment_create("wrong", 1, 0600, &policy), MG_EINVAL);
    policy = (struct mg_segment_policy){.size = sizeof policy, .consistency = (enum mg_consistency)9};
    CODE(mg_segment_create("wrong", 1, 0600, &policy), MG_EINVAL);
    policy = (struct mg_segment_policy){.size = sizeof policy, .grain = SIZE_MAX};
    CODE(mg_segment_create("wrong", 1, 0600, &policy), MG_EINVAL);
    CHECK(strstr(mg_strerror(MG_EINVAL), "minipages of 18446744073709551615 bytes: at most ") != NULL);
    NONE(mg_segment_attach("wrong", 0), MG_ENOENT);
    NONE(mg_segment_attach("wrong", 4), MG_EINVAL);
    NONE(mg_segment_attach(NULL, 0), MG_EINVAL);
    CODE(mg_segment_detach(NULL), MG_ENOTSHARED);
    CODE(mg_segment_remove("wrong"), MG_ENOENT);
    CODE(mg_segment_stat("wrong", &stat, sizeof stat), MG_ENOENT);
    CODE(mg_segment_stat("wrong", NULL, sizeof stat), MG_EINVAL);
    CODE(mg_segment_stat_at(&stat, &stat, sizeof stat), MG_ENOTSHARED);
    meet();
}

/* All would create the same segment: one of them does, and none hears of one that could not be made. */
static void contend(void)
{
    int created;
    const void *raced;

    for (int round = 0; round < 5; round++)
        CODE(mg_segment_create("large", (size_t)1 << 60, 0600, NULL), MG_ENOMEM);
    meet();
    created = mg_segment_create("raced", PAGE, 0600, NULL);
    if (created != MG_OK)
        CODE(created, MG_EEXIST);
    raced = MUST(mg_segment_attach("raced", 0));
    meet();
    if (created == MG_OK)
        OK(mg_segment_remove("raced"));
    OK(mg_segment_detach(raced));
    meet();
}

/* The last node touches what it may not; the others wait for it. */
static void touch(const char *what)
{
    volatile char *p;

    if (me == 0)
        OK(mg_segment_create("touched", PAGE, 0600, NULL));
    meet();
    if (me == nodes - 1) {
        if (strcmp(what, "never") == 0) {
            p = stat_of("touched").address;
            p[0] = 1;
        } else if (strcmp(what, "detached") == 0) {
            p = MUST(mg_segment_attach("touched", 0));
            p[0] = 1;
            OK(mg_segment_detach((const void *)p));
            CODE(mg_touch_read((const void *)p, 1), MG_EACCES);
            if (p[0] == 1)
                FAIL("it can be read");
        } else {
            p = MUST(mg_segment_attach("touched", MG_SEGMENT_READ_ONLY));
            OK(mg_touch_read((const void *)p, 1));
            CODE(mg_touch_write((void *)p, 1), MG_EACCES);
            if (p[0] == 0)
                p[0] = 1;
        }
        FAIL("nothing happened");
    }
    meet();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (argc > 1) {
        touch(argv[1]);
    } else {
        wrong();
        contend();
        life();
        kept();
        policies();
        given_back();
        rights();
    }
    OK(mg_finalize());
    return 0;
}
