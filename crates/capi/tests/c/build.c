/* Joins and leaves. Built with different numbers, its files differ in one byte but not in length. */
#include "check.h"

#ifndef NUMBER
#define NUMBER 1
#endif

const volatile char number = NUMBER;

int main(int argc, char **argv)
{
    CHECK(number == NUMBER);
    OK(mg_init(&argc, &argv));
    OK(mg_finalize());
    return 0;
}
