import java.net.URI;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.*;
import software.amazon.awssdk.services.dynamodb.model.Record;
import software.amazon.awssdk.services.dynamodb.streams.DynamoDbStreamsClient;

/** What the AWS SDK for Java must be able to do: Exercise ADDRESS PORT. Prints "N passed, N failed". */
public final class Exercise {
    private static final String TABLE = "sdk.java";
    private static DynamoDbClient db;
    private static DynamoDbStreamsClient streams;

    private interface Test {
        void run() throws Exception;
    }

    private static void check(boolean holds, Object shown) {
        if (!holds) {
            throw new AssertionError(String.valueOf(shown));
        }
    }

    private static AttributeValue s(String text) {
        return AttributeValue.fromS(text);
    }

    private static AttributeValue n(long number) {
        return AttributeValue.fromN(Long.toString(number));
    }

    private static Map<String, AttributeValue> key(String p, int c) {
        return Map.of("p", s(p), "c", n(c));
    }

    private static AttributeDefinition attribute(String name, String type) {
        return AttributeDefinition.builder().attributeName(name).attributeType(type).build();
    }

    private static KeySchemaElement part(String name, KeyType type) {
        return KeySchemaElement.builder().attributeName(name).keyType(type).build();
    }

    private static void create() {
        db.createTable(it -> it.tableName(TABLE).billingMode(BillingMode.PAY_PER_REQUEST)
            .attributeDefinitions(attribute("p", "S"), attribute("c", "N"), attribute("g", "S"))
            .keySchema(part("p", KeyType.HASH), part("c", KeyType.RANGE))
            .globalSecondaryIndexes(index -> index.indexName("by_g").keySchema(part("g", KeyType.HASH))
                .projection(all -> all.projectionType(ProjectionType.ALL)))
            .streamSpecification(on -> on.streamEnabled(true)
                .streamViewType(StreamViewType.NEW_AND_OLD_IMAGES)));
        db.waiter().waitUntilTableExists(it -> it.tableName(TABLE));
        check(db.listTables().tableNames().equals(List.of(TABLE)), db.listTables());
    }

    private static void put() {
        var item = new HashMap<>(key("types", 1));
        item.put("g", s("indexed"));
        item.put("binary", AttributeValue.fromB(SdkBytes.fromByteArray(new byte[] {0, -1})));
        item.put("yes", AttributeValue.fromBool(true));
        item.put("nothing", AttributeValue.fromNul(true));
        item.put("list", AttributeValue.fromL(List.of(n(3), s(""), AttributeValue.fromL(List.of()))));
        item.put("map", AttributeValue.fromM(Map.of("x", s("gr\u00fcn"))));
        item.put("strings", AttributeValue.fromSs(List.of("a", "b")));
        item.put("numbers", AttributeValue.fromNs(List.of("7")));
        db.putItem(it -> it.tableName(TABLE).item(item));
        var found = db.getItem(it -> it.tableName(TABLE).key(key("types", 1)).consistentRead(true)).item();
        check(found.equals(item), found);
        try {
            db.putItem(it -> it.tableName(TABLE).item(item).conditionExpression("attribute_not_exists(p)")
                .returnValuesOnConditionCheckFailure("ALL_OLD"));
            check(false, "not refused");
        } catch (ConditionalCheckFailedException refused) {
            check(refused.item().equals(item), refused.item());
        }
    }

    private static void update() {
        for (int turn = 1; turn <= 3; turn++) {
            var found = db.updateItem(it -> it.tableName(TABLE).key(key("count", 0))
                .updateExpression("SET #n = if_not_exists(#n, :zero) + :one")
                .expressionAttributeNames(Map.of("#n", "n"))
                .expressionAttributeValues(Map.of(":zero", n(0), ":one", n(1)))
                .returnValues(ReturnValue.UPDATED_NEW)).attributes();
            check(found.equals(Map.of("n", n(turn))), found);
        }
        db.deleteItem(it -> it.tableName(TABLE).key(key("count", 0)));
    }

    private static void query() throws Exception {
        for (int start = 0; start < 100; start += 25) {
            var writes = new ArrayList<WriteRequest>();
            for (int c = start; c < start + 25; c++) {
                var item = new HashMap<>(key("wide", c));
                item.put("g", s("g" + c % 4));
                writes.add(WriteRequest.builder().putRequest(put -> put.item(item)).build());
            }
            var left = db.batchWriteItem(it -> it.requestItems(Map.of(TABLE, writes))).unprocessedItems();
            check(left.isEmpty(), left);
        }
        int next = 10;
        for (var item : db.queryPaginator(it -> it.tableName(TABLE).limit(7).consistentRead(true)
                .keyConditionExpression("p = :p AND c >= :c")
                .expressionAttributeValues(Map.of(":p", s("wide"), ":c", n(10)))).items()) {
            check(item.get("c").equals(n(next)), item);
            next++;
        }
        check(next == 100, next);
        // A global index is behind for a moment.
        int count = 0;
        for (int turn = 0; turn < 100 && count != 25; turn++) {
            count = db.query(it -> it.tableName(TABLE).indexName("by_g").keyConditionExpression("g = :g")
                .expressionAttributeValues(Map.of(":g", s("g1")))).count();
            Thread.sleep(20);
        }
        check(count == 25, count);
    }

    private static TransactWriteItem absent(int c) {
        return TransactWriteItem.builder().put(it -> it.tableName(TABLE).item(key("both", c))
            .conditionExpression("attribute_not_exists(p)")).build();
    }

    private static TransactGetItem wanted(int c) {
        return TransactGetItem.builder().get(it -> it.tableName(TABLE).key(key("both", c))).build();
    }

    private static void transact() {
        for (int turn = 0; turn < 2; turn++) {
            // What is sent again with its token is done once.
            db.transactWriteItems(it -> it.transactItems(absent(1), absent(2)).clientRequestToken("once"));
        }
        try {
            db.transactWriteItems(it -> it.transactItems(absent(3), absent(2)));
            check(false, "not cancelled");
        } catch (TransactionCanceledException cancelled) {
            var reason = cancelled.cancellationReasons().get(1);
            check(reason.code().equals("ConditionalCheckFailed"), reason);
        }
        var found = db.transactGetItems(it -> it.transactItems(wanted(1), wanted(2), wanted(3))).responses();
        check(found.get(0).item().equals(key("both", 1)) && found.get(1).item().equals(key("both", 2))
            && found.get(2).item().isEmpty(), found);
    }

    private static List<Record> records() {
        var arn = db.describeTable(it -> it.tableName(TABLE)).table().latestStreamArn();
        var found = new ArrayList<Record>();
        for (var shard : streams.describeStream(it -> it.streamArn(arn)).streamDescription().shards()) {
            var iterator = streams.getShardIterator(it -> it.streamArn(arn).shardId(shard.shardId())
                .shardIteratorType(ShardIteratorType.TRIM_HORIZON)).shardIterator();
            while (iterator != null) {
                var from = iterator;
                var page = streams.getRecords(it -> it.shardIterator(from));
                found.addAll(page.records());
                iterator = page.records().isEmpty() ? null : page.nextShardIterator();
            }
        }
        return found;
    }

    private static void untilRecorded(String p, Predicate<Record> fits) throws Exception {
        for (int turn = 0; turn < 300; turn++) {
            if (records().stream().anyMatch(
                    it -> it.dynamodb().keys().get("p").equals(s(p)) && fits.test(it))) {
                return;
            }
            Thread.sleep(100);
        }
        check(false, "no such record of " + p);
    }

    private static void stream() throws Exception {
        untilRecorded("count", it -> it.eventName() == OperationType.MODIFY
            && n(2).equals(it.dynamodb().oldImage().get("n"))
            && n(3).equals(it.dynamodb().newImage().get("n")));
        untilRecorded("count", it -> it.eventName() == OperationType.REMOVE && it.userIdentity() == null);
    }

    private static void expire() throws Exception {
        db.updateTimeToLive(it -> it.tableName(TABLE).timeToLiveSpecification(
            end -> end.attributeName("end").enabled(true)));
        var item = new HashMap<>(key("old", 0));
        item.put("end", n(Instant.now().getEpochSecond() - 60));
        db.putItem(it -> it.tableName(TABLE).item(item));
        untilRecorded("old", it -> it.eventName() == OperationType.REMOVE && it.userIdentity() != null
            && "dynamodb.amazonaws.com".equals(it.userIdentity().principalId()));
    }

    private static void drop() {
        db.deleteTable(it -> it.tableName(TABLE));
        try {
            db.describeTable(it -> it.tableName(TABLE));
            check(false, "still there");
        } catch (ResourceNotFoundException expected) {
            check(expected.statusCode() == 400, expected);
        }
    }

    public static void main(String[] arguments) {
        var endpoint = URI.create("http://" + arguments[0] + ":8000");
        var keys = StaticCredentialsProvider.create(AwsBasicCredentials.create("any", "any"));
        var http = UrlConnectionHttpClient.create();
        db = DynamoDbClient.builder().endpointOverride(endpoint).region(Region.US_EAST_1)
            .credentialsProvider(keys).httpClient(http).build();
        streams = DynamoDbStreamsClient.builder().endpointOverride(endpoint).region(Region.US_EAST_1)
            .credentialsProvider(keys).httpClient(http).build();
        var tests = new LinkedHashMap<String, Test>();
        tests.put("create", Exercise::create);
        tests.put("put", Exercise::put);
        tests.put("update", Exercise::update);
        tests.put("query", Exercise::query);
        tests.put("transact", Exercise::transact);
        tests.put("stream", Exercise::stream);
        tests.put("expire", Exercise::expire);
        tests.put("drop", Exercise::drop);
        int failed = 0;
        for (var test : tests.entrySet()) {
            try {
                test.getValue().run();
            } catch (Exception | AssertionError error) {
                failed++;
                System.out.println("FAILED " + test.getKey() + " " + error);
            }
        }
        System.out.println((tests.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
