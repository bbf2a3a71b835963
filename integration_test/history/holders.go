package history

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// holders are who has something, and how many of it each, as text: states of models are compared.
type holders string

// id is what a grant is called among holders.
func (o *Op) id() string {
	return fmt.Sprintf("%s#%d#%d", o.Owner, o.Token, o.Grant)
}

func (h holders) find(id string) (at, end, count int) {
	at = strings.Index(string(h), " "+id+"=")
	if at < 0 {
		return -1, 0, 0
	}
	from := at + len(id) + 2
	end = from + strings.IndexByte(string(h[from:]), ';') + 1
	count, _ = strconv.Atoi(string(h[from : end-1]))
	return at, end, count
}

func (h holders) count(id string) int {
	_, _, n := h.find(id)
	return n
}

// with are the same, of whom one has so many; none if that is 0.
func (h holders) with(id string, count int) holders {
	if at, end, _ := h.find(id); at >= 0 {
		h = h[:at] + h[end:]
	}
	switch {
	case count == 0:
		return h
	case h == "":
		return holders(" " + id + "=" + strconv.Itoa(count) + ";")
	}
	all := append(strings.SplitAfter(string(h), ";"), fmt.Sprintf(" %s=%d;", id, count))
	sort.Strings(all)
	return holders(strings.Join(all, ""))
}

// owned is how many an owner has, in all of its grants.
func (h holders) owned(owner string) (n int) {
	h.each(func(id string, count int) {
		if strings.HasPrefix(id, owner+"#") {
			n += count
		}
	})
	return n
}

// sum is how many all have.
func (h holders) sum() (n int) {
	h.each(func(_ string, count int) { n += count })
	return n
}

func (h holders) each(do func(id string, count int)) {
	for _, one := range strings.Split(string(h), ";") {
		if id, count, ok := strings.Cut(strings.TrimSpace(one), "="); ok {
			n, _ := strconv.Atoi(count)
			do(id, n)
		}
	}
}

// describe is for pictures.
func (h holders) describe() string {
	var list []string
	h.each(func(id string, count int) {
		owner, _, _ := strings.Cut(id, "#")
		list = append(list, fmt.Sprintf("%s x%d", short(owner), count))
	})
	return strings.Join(list, " ")
}
