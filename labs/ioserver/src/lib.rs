//! Story 3 as a program: a server of the Redis protocol whose IO threads count, on shared lines or on their own.
