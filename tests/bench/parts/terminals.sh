# Many terminals at once against one, and what of that no server could save.
measure_terminals() { harness terminals; }
