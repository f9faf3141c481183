// What every test program of the C++ interface uses.
#pragma once

#include <multigrain.hpp>

#include <cstdio>
#include <unistd.h>

// A failed check ends the node at once: the launcher ends the others.
#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            std::fprintf(stderr, "%s:%d: node %d: %s\n", __FILE__, __LINE__, mg_node(), #condition); \
            _exit(1);                                                                                \
        }                                                                                            \
    } while (0)

// The code of the mg::error that a call throws; MG_OK if it throws none.
template <class Call> std::error_code code_of(Call call)
{
    try {
        call();
    } catch (const mg::error &error) {
        return error.code();
    }
    return MG_OK;
}
