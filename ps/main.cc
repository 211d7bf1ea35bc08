// The program `downpour-ps`.
#include "ps/program.h"

int main(int argc, char** argv) { return downpour::ps::run_program(argc, argv); }
