#include "conformance.h"
void permission_sections(void){}
