package main

// Who reads logs of changes by the library for it, over the ring and over tablets.

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/gocql/gocql"
	cdc "github.com/scylladb/scylla-cdc-go"
)

const partitions = 20

// told has, by partition, the rows of the log in the order in which the library told of them.
type told struct {
	sync.Mutex
	rows map[int][]string
	// last is the time of the newest change of each stream.
	last    map[string]gocql.UUID
	strange []string
	count   int
}

func (told *told) CreateChangeConsumer(
	context.Context, cdc.CreateChangeConsumerInput,
) (cdc.ChangeConsumer, error) {
	return told, nil
}

func (told *told) End() error {
	return nil
}

func (told *told) Consume(_ context.Context, change cdc.Change) error {
	told.Lock()
	defer told.Unlock()
	stream := string(change.StreamID)
	if last, found := told.last[stream]; found && cdc.CompareTimeUUID(last, change.Time) >= 0 {
		told.strange = append(told.strange, fmt.Sprintf("%v comes after %v", change.Time, last))
	}
	told.last[stream] = change.Time
	rows := append(append(change.PreImage, change.Delta...), change.PostImage...)
	for i, row := range rows {
		if int(row.GetSeqNo()) != i || row.GetEndOfBatch() != (i == len(rows)-1) {
			told.strange = append(told.strange, fmt.Sprintf("row %d of a set: %v", i, row))
		}
		p, _ := row.GetValue("p")
		key := *p.(*int)
		told.rows[key] = append(told.rows[key], render(row))
		told.count++
	}
	return nil
}

// read returns how many rows the library has told of.
func (told *told) read() int {
	told.Lock()
	defer told.Unlock()
	return told.count
}

// render is a row as changes.txt has it.
func render(row *cdc.ChangeRow) string {
	words := []string{fmt.Sprint(int(row.GetOperation()))}
	if ttl := row.GetTTL(); ttl != 0 {
		words = append(words, fmt.Sprintf("ttl=%d", ttl))
	}
	for _, name := range []string{"c", "f", "t", "v"} {
		change := row.GetAtomicChange(name)
		words = describe(words, name, value(change.Value), change.IsDeleted, "")
	}
	list := row.GetListChange("l")
	removed := ""
	if len(list.RemovedElements) != 0 {
		removed = fmt.Sprint(len(list.RemovedElements))
	}
	words = describe(words, "l", byTime(list.AppendedElements), list.IsReset, removed)
	entries := row.GetMapChange("m")
	words = describe(words, "m", value(entries.AddedElements), entries.IsReset,
		value(entries.RemovedElements))
	set := row.GetSetChange("s")
	words = describe(words, "s", value(set.AddedElements), set.IsReset, value(set.RemovedElements))
	pair := row.GetUDTChange("u")
	fields := []string{}
	for name, field := range pair.AddedFields {
		if text := value(field); text != "" {
			fields = append(fields, name+":"+text)
		}
	}
	fieldsRemoved := []string{}
	for _, field := range pair.RemovedFieldsIndices {
		fieldsRemoved = append(fieldsRemoved, fmt.Sprint(field))
	}
	words = describe(words, "u", joined(fields), pair.IsReset, joined(fieldsRemoved))
	first := 1
	if row.GetTTL() != 0 {
		first = 2
	}
	sort.Strings(words[first:])
	return strings.Join(words, " ")
}

func describe(words []string, name, value string, deleted bool, removed string) []string {
	if value != "" {
		words = append(words, name+"="+value)
	}
	if deleted {
		words = append(words, name+"-")
	}
	if removed != "" {
		words = append(words, name+"-"+removed)
	}
	return words
}

func joined(words []string) string {
	if len(words) == 0 {
		return ""
	}
	sort.Strings(words)
	return "[" + strings.Join(words, ",") + "]"
}

// value is what the library gives for a value of the table; "" if there is none.
func value(of any) string {
	switch of := of.(type) {
	case *int:
		if of != nil {
			return fmt.Sprint(*of)
		}
	case *string:
		if of != nil {
			return *of
		}
	case []string:
		return joined(append([]string{}, of...))
	case map[string]int:
		words := []string{}
		for key, number := range of {
			words = append(words, fmt.Sprintf("%s:%d", key, number))
		}
		return joined(words)
	case []any:
		if of == nil {
			return ""
		}
		words := []string{}
		for _, one := range of {
			text := value(one)
			if text == "" {
				text = "null"
			}
			words = append(words, text)
		}
		return "(" + strings.Join(words, ",") + ")"
	case nil:
	default:
		return fmt.Sprintf("%T?", of)
	}
	return ""
}

// byTime is the elements of a list, which the log has by the time of each.
func byTime(of any) string {
	elements, _ := of.(map[gocql.UUID]int)
	if len(elements) == 0 {
		return ""
	}
	times := []gocql.UUID{}
	for at := range elements {
		times = append(times, at)
	}
	sort.Slice(times, func(i, j int) bool { return cdc.CompareTimeUUID(times[i], times[j]) < 0 })
	words := []string{}
	for _, at := range times {
		words = append(words, fmt.Sprint(elements[at]))
	}
	return "[" + strings.Join(words, ",") + "]"
}

// script is what changes.txt has: the statements, and what a log, with images or without, tells.
func script(images bool) (statements, expected []string, err error) {
	text, err := os.ReadFile("../changes.txt")
	if err != nil {
		return nil, nil, err
	}
	whole := strings.ReplaceAll(strings.TrimSpace(string(text)), " \\\n", " ")
	for _, line := range strings.Split(whole, "\n") {
		row, isRow := strings.CutPrefix(line, "  ")
		isImage := strings.HasPrefix(row, "0") || strings.HasPrefix(row, "9")
		switch {
		case isRow && (images || !isImage):
			expected = append(expected, row)
		case !isRow && !strings.HasPrefix(line, "#"):
			statements = append(statements, line)
		}
	}
	return statements, expected, nil
}

func run(texts ...string) error {
	for _, text := range texts {
		if err := session.Query(text).Exec(); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// divide ends the log of a table, and makes a new one when the table has more tablets: with other
// streams.
func divide(keyspace, log string) error {
	if err := run(
		fmt.Sprintf("ALTER TABLE %s.t WITH cdc = {'enabled': false}", keyspace),
		fmt.Sprintf("ALTER TABLE %s.t WITH tablets = {'min_tablet_count': 8}", keyspace),
	); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for count := 0; count < 8; time.Sleep(20 * time.Millisecond) {
		text := "SELECT tablet_count FROM system.tablets WHERE keyspace_name = ? AND table_name = 't' " +
			"LIMIT 1 ALLOW FILTERING"
		if err := session.Query(text, keyspace).Scan(&count); err != nil {
			return err
		}
		if deadline.Before(time.Now()) {
			return fmt.Errorf("still %d tablets", count)
		}
	}
	return run(fmt.Sprintf("ALTER TABLE %s.t WITH cdc = %s", keyspace, log))
}

// readChanges makes a table with a log, writes, and has the library read what was written.
func readChanges(tablets, images, divided bool) error {
	keyspace := fmt.Sprintf("changes_%t_%t_%t", tablets, images, divided)
	table := keyspace + ".t"
	log := fmt.Sprintf("{'enabled': true, 'preimage': %t, 'postimage': %t}", images, images)
	if err := run(
		fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'NetworkTopologyStrategy', "+
			"'replication_factor': 1} AND tablets = {'enabled': %t}", keyspace, tablets),
		fmt.Sprintf("CREATE TYPE %s.pair (a int, b text)", keyspace),
		fmt.Sprintf("CREATE TABLE %s (p int, c int, f text static, l list<int>, m map<text, int>, "+
			"s set<text>, t tuple<int, text>, u pair, v int, PRIMARY KEY (p, c)) WITH cdc = %s",
			table, log),
	); err != nil {
		return err
	}
	statements, expected, err := script(images)
	if err != nil {
		return err
	}
	for i, statement := range statements {
		if divided && i == len(statements)/2 {
			if err := divide(keyspace, log); err != nil {
				return err
			}
		}
		for p := range partitions {
			text := strings.NewReplacer("$t", table, "$p", fmt.Sprint(p)).Replace(statement)
			if err := run(text); err != nil {
				return err
			}
		}
	}
	told := told{rows: map[int][]string{}, last: map[string]gocql.UUID{}}
	const short = 50 * time.Millisecond
	reader, err := cdc.NewReader(context.Background(), &cdc.ReaderConfig{
		Session:               session,
		TableNames:            []string{table},
		ChangeConsumerFactory: &told,
		Advanced: cdc.AdvancedReaderConfig{
			ConfidenceWindowSize: short, PostNonEmptyQueryDelay: short, PostEmptyQueryDelay: short,
			PostFailedQueryDelay: short, QueryTimeWindowSize: 10 * time.Second,
			ChangeAgeLimit: time.Minute,
		},
	})
	if err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		for told.read() < partitions*len(expected) && deadline.Err() == nil {
			time.Sleep(short)
		}
		reader.StopAt(time.Now())
	}()
	if err := reader.Run(deadline); err != nil && err != context.DeadlineExceeded {
		return err
	}
	if len(told.strange) != 0 {
		return fmt.Errorf("%s", strings.Join(told.strange, "; "))
	}
	for p := range partitions {
		found := strings.Join(told.rows[p], "\n  ")
		if found != strings.Join(expected, "\n  ") {
			return fmt.Errorf("of partition %d the library told\n  %s", p, found)
		}
	}
	return check(len(told.rows) == partitions, "%d partitions", len(told.rows))
}
