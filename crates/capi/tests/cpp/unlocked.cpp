// Two containers whose lock was forgotten: each race is of the allocation that a function of the program made.
#include "check.hpp"

#include <vector>

using Vector = std::vector<int, mg::allocator<int>>;

namespace grid {

struct Table {
    Vector filled;
    Vector *made;

    explicit Table(std::size_t count);
};

__attribute__((noinline)) Table::Table(std::size_t count) : filled(), made(mg::create<Vector>())
{
    filled.resize(count);
    made->reserve(count);
    made->assign(count, 0);
}

} // namespace grid

int main()
{
    mg::job job;
    auto *table = mg::share("table", [] { return mg::create<grid::Table>(1000); });

    mg_barrier(1, 0);
    table->filled[7] += 1 + mg::node();
    (*table->made)[7] += 1 + mg::node();
    mg_barrier(1, 0);
    return 0;
}
