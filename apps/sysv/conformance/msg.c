#include "conformance.h"
void msg_sections(void){}
