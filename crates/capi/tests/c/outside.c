/* Calls before mg_init and after mg_finalize say so, and none crashes. */
#include "check.h"

static void *nothing(void *arg)
{
    return arg;
}

static void all_refused(void)
{
    struct mg_stats stats;
    mg_thread thread = 0;
    void *out[1];
    int value = 0;

    CODE(mg_finalize(), MG_ENOTINIT);
    CHECK(mg_node() == MG_ENOTINIT && mg_nodes() < 0 && mg_threads() < 0);
    mg_progress(1, 2);
    NONE(mg_malloc(8), MG_ENOTINIT);
    NONE(mg_calloc(8, 8), MG_ENOTINIT);
    NONE(mg_malloc_array(8, 8), MG_ENOTINIT);
    NONE(mg_element(&value, 0), MG_ENOTINIT);
    CODE(mg_elements(&value, 1, out), MG_ENOTINIT);
    NONE(mg_malloc_grain(8, 8), MG_ENOTINIT);
    NONE(mg_malloc_with(8, 0, MG_DEFAULT), MG_ENOTINIT);
    NONE(mg_malloc_array_with(8, 8, MG_LAZY_RELEASE), MG_ENOTINIT);
    CODE(mg_free(&value), MG_ENOTINIT);
    CODE(mg_set_chunking(1), MG_ENOTINIT);
    CODE(mg_publish("name", &value), MG_ENOTINIT);
    NONE(mg_lookup("name"), MG_ENOTINIT);
    CODE(mg_segment_create("name", 1, 0600, NULL), MG_ENOTINIT);
    NONE(mg_segment_attach("name", 0), MG_ENOTINIT);
    CODE(mg_segment_detach(&value), MG_ENOTINIT);
    CODE(mg_segment_remove("name"), MG_ENOTINIT);
    CODE(mg_write_lock(&value, 1), MG_ENOTINIT);
    CODE(mg_write_unlock(&value, 1), MG_ENOTINIT);
    CODE(mg_prefetch_read(&value, 1), MG_ENOTINIT);
    CODE(mg_prefetch_write(&value, 1), MG_ENOTINIT);
    CODE(mg_push(&value, 1), MG_ENOTINIT);
    CODE(mg_touch_read(&value, 1), MG_ENOTINIT);
    CODE(mg_touch_write(&value, 1), MG_ENOTINIT);
    CODE(mg_lock(0), MG_ENOTINIT);
    CODE(mg_unlock(0), MG_ENOTINIT);
    CODE(mg_barrier(0, 0), MG_ENOTINIT);
    CODE(mg_sem_post(0, 1), MG_ENOTINIT);
    CODE(mg_sem_wait(0), MG_ENOTINIT);
    CODE(mg_cond_wait(0, 0), MG_ENOTINIT);
    CODE(mg_cond_signal(0), MG_ENOTINIT);
    CODE(mg_cond_broadcast(0), MG_ENOTINIT);
    CODE(mg_thread_create(&thread, 0, nothing, NULL), MG_ENOTINIT);
    CODE(mg_thread_join(thread, NULL), MG_ENOTINIT);
    CODE(mg_get_stats(&stats, sizeof stats), MG_ENOTINIT);
}

int main(int argc, char **argv)
{
    CHECK(strncmp(mg_version(), "multigrain ", 11) == 0);
    for (int error = -20; error < 20; error++)
        CHECK(mg_strerror(error) != NULL && *mg_strerror(error) != '\0');
    CHECK(mg_last_error() == MG_OK);

    all_refused();
    CHECK(mg_last_error() == MG_ENOTINIT);
    OK(mg_init(&argc, &argv));
    CODE(mg_init(&argc, &argv), MG_EAGAIN);
    CODE(mg_init(NULL, NULL), MG_EAGAIN);
    CHECK(mg_node() >= 0 && mg_node() < mg_nodes() && mg_threads() >= 1);
    OK(mg_finalize());
    all_refused();
    CODE(mg_init(&argc, &argv), MG_EAGAIN);
    return 0;
}
