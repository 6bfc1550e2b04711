/* Included before everything else by the build (-include): functions nobody may call here. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf gets atoi atol atof system popen tmpnam mktemp strtok
