package main

import (
	"context"
	"errors"
)

// hold locks once and holds until the process is killed.
func (w *worker) hold(ctx context.Context) (*result, error) {
	lock, slot, err := w.locker(ctx, 0)
	if err != nil {
		return nil, err
	}
	if _, err := w.begin(); err != nil {
		return nil, err
	}
	_, token, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	slot.enter(newParticipant(w.Process, 0), token)
	if err := w.say(eventProgress); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, errors.New("the holder was not killed")
}

// await waits for the lock once and says when it had it. What it has not got by the end of the
// window it gives up.
func (w *worker) await(ctx context.Context) (*result, error) {
	lock, slot, err := w.locker(ctx, 0)
	if err != nil {
		return nil, err
	}
	win, err := w.begin()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, timeAt(win.To))
	defer cancel()
	if err := w.say(eventProgress); err != nil {
		return nil, err
	}
	unlock, token, err := lock(ctx)
	at := now()
	if err != nil {
		return nil, err
	}
	me := newParticipant(w.Process, 0)
	slot.enter(me, token)
	slot.leave(me)
	return &result{At: at, Entries: 1}, unlock()
}
