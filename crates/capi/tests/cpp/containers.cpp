// Containers of the standard library in shared memory; spans; names; what is thrown.
#include "check.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

template <class T> using shared_vector = std::vector<T, mg::allocator<T>>;
using shared_string = std::basic_string<char, std::char_traits<char>, mg::allocator<char>>;
template <class K, class V> using shared_map = std::map<K, V, std::less<K>, mg::allocator<std::pair<const K, V>>>;

// Everything that nodes work on together, in one object under one lock.
struct library {
    mg::mutex lock;
    mg::barrier all;
    shared_map<int, shared_string> titles;
    shared_vector<long> counts;
    std::list<int, mg::allocator<int>> order;
    std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, mg::allocator<std::pair<const int, int>>> lent;
};

struct shape {
    virtual double area() const = 0;
    virtual ~shape() = default;
};

struct square : shape {
    explicit square(double length) : side(length) {}
    double area() const override { return side * side; }
    double side;
};

struct alignas(16) wide {
    long a, b;
};

static void work_on_one_library()
{
    auto *books = mg::share("library", [] { return mg::create<library>(); });
    const int me = mg::node(), nodes = mg::nodes();

    for (int i = 0; i < 40; i++) {
        const std::lock_guard<mg::mutex> held(books->lock);
        const int number = i * nodes + me;
        shared_string title("a title that is too long for the object itself, number ");
        title += std::to_string(number).c_str();
        books->titles.emplace(number, std::move(title));
        books->counts.push_back(number);
        books->order.push_front(number);
        books->lent[number % 7]++;
    }
    books->all.arrive_and_wait();

    CHECK(books->titles.size() == 40u * static_cast<unsigned>(nodes));
    int next = 0;
    for (const auto &[number, title] : books->titles) {
        CHECK(number == next++);
        CHECK(title.substr(title.rfind(' ') + 1) == std::to_string(number).c_str());
    }
    const long last = 40 * nodes - 1;
    CHECK(std::accumulate(books->counts.begin(), books->counts.end(), 0L) == last * (last + 1) / 2);
    CHECK(books->order.size() == books->counts.size());
    int lent = 0;
    for (const auto &entry : books->lent)
        lent += entry.second;
    CHECK(lent == 40 * nodes);

    // Who ends it need not be who made it.
    books->all.arrive_and_wait();
    if (me == nodes - 1)
        mg::destroy(books);
}

static void objects_with_virtual_functions()
{
    auto *one = mg::share("shape", [] { return static_cast<shape *>(mg::create<square>(3.0)); });
    CHECK(one->area() == 9.0);
}

static void spans()
{
    auto *start = mg::share("block", [] { return mg::create_span<int>(5000, 4096).data(); });
    const mg::span<int> block(start, 5000);
    auto *meet = mg::share("meet", [] { return mg::create<mg::barrier>(); });
    CHECK(std::all_of(block.begin(), block.end(), [](int value) { return value == 0; }));
    meet->arrive_and_wait();

    block.prefetch_write();
    const std::size_t nodes = static_cast<std::size_t>(mg::nodes()), me = static_cast<std::size_t>(mg::node());
    const auto mine = block.subspan(me * 5000 / nodes, (me + 1) * 5000 / nodes - me * 5000 / nodes);
    std::iota(mine.begin(), mine.end(), static_cast<int>(mine.data() - block.data()));
    meet->arrive_and_wait();
    block.touch_read();
    CHECK(block.front() == 0 && block.back() == 4999 && block[77] == 77 && *block.rbegin() == 4999);
    CHECK(block.first(3).size() == 3 && block.last(2)[0] == 4998 && block.subspan(4990).size_bytes() == 40);
    meet->arrive_and_wait();

    std::vector<int> own{1, 2, 3};
    const mg::span view(own);
    const mg::span<const int> reader(view);
    CHECK(reader.size() == 3 && reader[2] == 3);
    if (mg::node() == 0)
        mg::destroy_span(block);
}

static void allocators()
{
    const mg::allocator<int> one;
    const mg::allocator<double> other(one);
    CHECK(one == mg::allocator<int>(other));
    std::vector<wide, mg::allocator<wide>> aligned;
    for (long i = 0; i < 100; i++)
        aligned.push_back(wide{i, -i});
    CHECK(aligned[99].b == -99);
    std::vector<long, mg::allocator<long, MG_LAZY_RELEASE>> lazy(1000, 7);
    CHECK(lazy[999] == 7);
    std::vector<int, mg::allocator<int>> nothing(0);
    CHECK(nothing.empty());

    bool refused = false;
    try {
        shared_vector<char>().reserve(std::size_t{1} << 50);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused);
}

static void errors()
{
    int outside = 0;
    CHECK(code_of([&] { mg::publish("outside", &outside); }) == MG_ENOTSHARED);
    CHECK(code_of([&] { mg::span<int>(&outside, 1).touch_read(); }) == MG_ENOTSHARED);
    try {
        mg::job again;
        CHECK(false);
    } catch (const std::system_error &error) {
        CHECK(error.code() == MG_EAGAIN && error.code().category() == mg::category());
        CHECK(std::string(error.what()).find("mg_init: ") == 0);
    }
}

int main(int argc, char **argv)
{
    mg::job job(argc, argv);
    work_on_one_library();
    objects_with_virtual_functions();
    spans();
    allocators();
    errors();
}
