package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The shared page: a file that all workers map. Every holder writes itself into the slot of its
// name and looks whether it is alone, so that mutual exclusion and the order of tokens are checked
// while they are measured, over all processes. Words are 64 bits, little-endian, and used by atomic
// instructions only. A worker in Java does the same (redisson/Page.java).
//
//	bytes 0..127        word 0: the process that is about to be killed, plus 1; word 1: turns taken
//	bytes 128*(1+i)...  slot i: the words below
const (
	slotBytes = 128 // two cache lines, because neighbours are fetched in pairs
	pageSlots = 64
	pageBytes = slotBytes * (1 + pageSlots)
)

// Words of a slot.
const (
	wordHolder   = iota // who is inside, 0: nobody
	wordEntries         // read and written back by the holder without an atomic addition: two inside lose some
	wordToken           // the greatest token seen
	wordReleased        // when the last holder began to release
	wordReleaser        // who that was
	wordOverlaps        // how often somebody was met inside, or found itself replaced
	wordDisorder        // how often a token was not greater than the last one
	wordInside          // how many are inside who share it
)

type page struct{ mem []byte }

// createPage makes a page of zeros.
func createPage(path string) (*page, error) {
	if err := os.WriteFile(path, make([]byte, pageBytes), 0o600); err != nil {
		return nil, err
	}
	return openPage(path)
}

func openPage(path string) (*page, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its file
	mem, err := unix.Mmap(int(f.Fd()), 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(errors.New("cannot map the shared page "+path), err)
	}
	return &page{mem: mem}, nil
}

func (p *page) close() error { return unix.Munmap(p.mem) }

func (p *page) word(at int) *atomic.Uint64 {
	_ = p.mem[at+7]
	return (*atomic.Uint64)(unsafe.Pointer(&p.mem[at]))
}

// condemn says that a process is about to be killed: who finds it inside is not at fault, because
// its lock ended with it.
func (p *page) condemn(process int) { p.word(0).Store(uint64(process) + 1) }

// awaitTurn waits until it is the turn of one of so many processes, or for the end of ctx. It looks
// again and again, with pauses, which both locks of a comparison pay for.
func (p *page) awaitTurn(ctx context.Context, process, of int) bool {
	for p.word(8).Load()%uint64(of) != uint64(process) {
		if ctx.Err() != nil {
			return false
		}
		pause(ctx, 20*time.Microsecond)
	}
	return true
}

func (p *page) passTurn() { p.word(8).Add(1) }

// participant names one goroutine of one process; never 0.
type participant uint64

func newParticipant(process, goroutine int) participant {
	return participant(uint64(process+1)<<32 | uint64(goroutine+1))
}

func (p participant) process() int { return int(p>>32) - 1 }

type slot struct {
	page *page
	at   int
}

func (p *page) slot(i int) slot { return slot{p, slotBytes * (1 + i)} }

func (s slot) word(w int) *atomic.Uint64 { return s.page.word(s.at + 8*w) }

// handover is what a holder found when it entered.
type handover struct {
	from participant // who released last, 0: nobody yet
	at   int64       // when that one began to release
}

// enter is called by who has just got the lock. token is 0 where the lock has none.
func (s slot) enter(me participant, token uint64) handover {
	holder := s.word(wordHolder)
	if !holder.CompareAndSwap(0, uint64(me)) {
		other := participant(holder.Swap(uint64(me)))
		if other != 0 && uint64(other.process())+1 != s.page.word(0).Load() {
			s.word(wordOverlaps).Add(1)
		}
	}
	if s.word(wordInside).Load() != 0 { // the other one looks after it has counted itself: one of the two sees the other
		s.word(wordOverlaps).Add(1)
	}
	if token > 0 && s.word(wordToken).Swap(token) >= token {
		s.word(wordDisorder).Add(1)
	}
	entries := s.word(wordEntries)
	entries.Store(entries.Load() + 1)
	return handover{participant(s.word(wordReleaser).Load()), int64(s.word(wordReleased).Load())}
}

// leave is called by the holder just before it unlocks.
func (s slot) leave(me participant) {
	s.word(wordReleaser).Store(uint64(me))
	s.word(wordReleased).Store(uint64(now()))
	if !s.word(wordHolder).CompareAndSwap(uint64(me), 0) {
		s.word(wordOverlaps).Add(1)
	}
}

// share is called in place of enter by who is inside with others: most of them at once, and nobody
// who has entered alone. token is that of the last one who did, or 0.
func (s slot) share(most int, token uint64) {
	if s.word(wordInside).Add(1) > uint64(most) || s.word(wordHolder).Load() != 0 {
		s.word(wordOverlaps).Add(1)
	}
	if token > 0 && token < s.word(wordToken).Load() {
		s.word(wordDisorder).Add(1)
	}
	s.word(wordEntries).Add(1) // those who share may come at once
}

// unshare is called by who has shared, just before it unlocks.
func (s slot) unshare() { s.word(wordInside).Add(^uint64(0)) }

// safety is what the page has seen of all names together. Overlaps are compared with 0; that
// entries is less than what the holders counted themselves says the same, by the harm done.
type safety struct {
	Entries  int64 `json:"entries"`
	Overlaps int64 `json:"overlaps"`
	Disorder int64 `json:"disorder"`
}

func (p *page) safety() (s safety) {
	for i := range pageSlots {
		slot := p.slot(i)
		s.Entries += int64(slot.word(wordEntries).Load())
		s.Overlaps += int64(slot.word(wordOverlaps).Load())
		s.Disorder += int64(slot.word(wordDisorder).Load())
	}
	return s
}
