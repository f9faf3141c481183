// Threads on nodes, with typed arguments.
#include "check.hpp"

#include <mutex>
#include <vector>

struct range {
    long from, to;
};

struct total {
    mg::mutex lock;
    long sum = 0;
};

static void add(total *all, range numbers, int node)
{
    CHECK(mg::node() == node);
    long own = 0;
    for (long i = numbers.from; i < numbers.to; i++)
        own += i;
    const std::lock_guard<mg::mutex> held(all->lock);
    all->sum += own;
}

static void add_up()
{
    auto *all = mg::create<total>();
    std::vector<mg::thread> workers;
    const long each = 1000;
    for (int node = 0; node < mg::nodes(); node++)
        workers.emplace_back(mg::on{node}, add, all, range{node * each, (node + 1) * each}, node);
    for (auto &worker : workers)
        worker.join();
    const long last = each * mg::nodes();
    CHECK(all->sum == last * (last - 1) / 2);
    mg::destroy(all);
}

static void closures_and_handles()
{
    auto *done = mg::create<mg::semaphore>();
    mg::thread first(mg::any_node, [](mg::semaphore *semaphore) { semaphore->release(); }, done);
    CHECK(first.joinable());
    mg::thread moved(std::move(first));
    CHECK(!first.joinable() && moved.joinable());
    moved.detach();
    CHECK(!moved.joinable());
    done->acquire();

    CHECK(code_of([] { mg::thread(mg::on{99}, [] {}).join(); }) == MG_ENODE);
    CHECK(code_of([] { mg::thread().join(); }) == MG_EINVAL);
}

int main(int argc, char **argv)
{
    mg::job job(argc, argv);
    if (argc > 1) {
        // An exception that leaves a thread's function ends its node, and the job. Of one node alone:
        // the C++ library does not print the texts of two threads of a process that throw at once.
        if (mg::node() == 0)
            mg::thread(mg::any_node, [] { throw mg::error(MG_EINVAL, "as told"); }).join();
        return 0;
    }
    add_up();
    closures_and_handles();
    mg::share("end", [] { return mg::create<mg::barrier>(); })->arrive_and_wait();
}
