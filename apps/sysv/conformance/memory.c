#include "conformance.h"
void memory_sections(void){}
