// The classes of synchronization, by themselves and as members of shared objects, with the standard's guards.
#include "check.hpp"

#include <mutex>
#include <shared_mutex>

using namespace std::chrono_literals;

struct common {
    mg::mutex lock;
    mg::barrier all;
    mg::once_flag once;
    long sum = 0;
};

static common *ours;
static mg::mutex global;

static void meet()
{
    ours->all.arrive_and_wait();
}

struct turns {
    mg::mutex lock;
    mg::condition_variable changed;
    int next = 0;
};

struct table {
    mg::shared_mutex lock;
    long a = 0, b = 0;
};

static void locks()
{
    mg::mutex &lock = ours->lock;
    for (int i = 0; i < 300; i++) {
        const std::scoped_lock<mg::mutex> held(lock);
        ours->sum++;
    }
    meet();
    CHECK(ours->sum == 300L * mg::nodes());
    meet();

    // What one node holds, another cannot have.
    std::unique_lock<mg::mutex> held(lock, std::defer_lock);
    if (mg::node() == 0)
        held.lock();
    meet();
    if (mg::node() == 1) {
        CHECK(!held.try_lock());
        const auto before = std::chrono::steady_clock::now();
        CHECK(!held.try_lock_for(30ms));
        CHECK(!held.try_lock_until(std::chrono::system_clock::now() + 30ms));
        CHECK(std::chrono::steady_clock::now() - before >= 60ms);
    }
    meet();
    if (held.owns_lock()) {
        CHECK(code_of([&] { lock.lock(); }) == MG_EPERM);
        held.unlock();
    }
    meet();
    CHECK(code_of([&] { lock.unlock(); }) == MG_EPERM);
    CHECK(code_of([] { global.lock(); }) == MG_ENOTSHARED);
    if (mg::node() == mg::nodes() - 1) {
        CHECK(held.try_lock());
        held.unlock();
        CHECK(held.try_lock_for(10s));
    }
}

static void conditions()
{
    auto *turn = mg::share("turns", [] { return mg::create<turns>(); });
    for (int round = 0; round < 20; round++) {
        std::unique_lock<mg::mutex> held(turn->lock);
        turn->changed.wait(held, [&] { return turn->next % mg::nodes() == mg::node(); });
        turn->next++;
        turn->changed.notify_all();
    }
    meet();
    std::unique_lock<mg::mutex> held(turn->lock);
    CHECK(turn->next == 20 * mg::nodes());
    CHECK(!turn->changed.wait_for(held, 20ms, [] { return false; }));
    CHECK(turn->changed.wait_for(held, 20ms) == mg::cv_status::timeout);
    CHECK(turn->changed.wait_until(held, std::chrono::steady_clock::now() + 20ms, [] { return true; }));
    CHECK(held.owns_lock());
}

static void readers_and_writers()
{
    auto *data = mg::share("table", [] { return mg::create<table>(); });
    for (int i = 0; i < 200; i++) {
        if (i % 4 == 0) {
            const std::unique_lock<mg::shared_mutex> held(data->lock);
            data->a++;
            data->b--;
        } else {
            const std::shared_lock<mg::shared_mutex> held(data->lock);
            CHECK(data->a == -data->b);
        }
    }
    meet();
    CHECK(data->a == 50L * mg::nodes());

    // All read together; nobody writes meanwhile.
    std::shared_lock<mg::shared_mutex> held(data->lock);
    meet();
    CHECK(!data->lock.try_lock());
    meet();
    held.unlock();
}

static void semaphores()
{
    auto *units = mg::share("units", [] { return mg::create<mg::semaphore>(); });
    if (mg::node() == 0)
        units->release(static_cast<unsigned>(mg::nodes()) * 5);
    for (int i = 0; i < 5; i++)
        units->acquire();
    meet();
    CHECK(!units->try_acquire());
    CHECK(!units->try_acquire_for(20ms));
    meet();
    units->release();
    meet();
    CHECK(units->try_acquire());
}

static void calls_once()
{
    mg::call_once(ours->once, [] { ours->sum += 1000000; });
    CHECK(ours->sum == 300L * mg::nodes() + 1000000);
}

int main(int argc, char **argv)
{
    mg::job job(argc, argv);
    ours = mg::share("common", [] { return mg::create<common>(); });
    locks();
    conditions();
    readers_and_writers();
    semaphores();
    calls_once();
}
