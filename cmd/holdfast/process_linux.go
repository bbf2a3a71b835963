package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes(death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
}

// renewDeath has the signal at the end of the parent come also after an exec by this thread. The kernel keeps it for each
// thread, and the process got it for its first.
func renewDeath(death syscall.Signal) error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(death), 0, 0, 0)
}

// self is this program, also if its file was replaced meanwhile. The guard then has another name than holdfast for
// those who kill by name.
func self() (string, error) { return "/proc/self/exe", nil }

// onlyZombies says whether all that is left of a process group has ended and only waits for its
// parent to notice. In a container that parent may be a process 1 that never does, and may be
// holdfast.
func onlyZombies(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false // no /proc here
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended just now
		}
		state, pgrp, ok := parseStat(stat)
		if ok && pgrp == group && state != "Z" && state != "X" {
			return false
		}
	}
	return true
}

// parseStat takes state and group from "pid (name) state ppid pgrp ...", where the name may hold
// anything.
func parseStat(stat []byte) (state string, pgrp int, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return "", 0, false
	}
	var group, parent string
	if n, _ := fmt.Sscan(string(stat[end+1:]), &state, &parent, &group); n < 3 {
		return "", 0, false
	}
	pgrp, err := strconv.Atoi(group)
	return state, pgrp, err == nil
}
