// A word count of Hadoop whose map outputs are kept, and Hadoop's own reader of such files.
//
//   WordCount job INPUT OUTPUT KEPT   runs the job; copies the segments of each map for each reducer to KEPT
//   WordCount read SEGMENT            prints the words and counts of a segment

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.StringTokenizer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.SpillRecord;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;

public class WordCount {
    static final String KEPT = "wordcount.kept";

    public static class Words extends Mapper<Object, Text, Text, IntWritable> {
        private final IntWritable one = new IntWritable(1);
        private final Text word = new Text();

        @Override
        public void map(Object key, Text line, Context context) throws IOException, InterruptedException {
            StringTokenizer words = new StringTokenizer(line.toString());
            while (words.hasMoreTokens()) {
                word.set(words.nextToken());
                context.write(word, one);
            }
        }
    }

    public static class Sum extends Reducer<Text, IntWritable, Text, IntWritable> {
        // The local runner removes map outputs when the job ends. Now they are complete.
        @Override
        protected void setup(Context context) throws IOException {
            Configuration configuration = context.getConfiguration();
            if (configuration.get(KEPT) == null)
                return; // it combines
            int reducer = context.getTaskAttemptID().getTaskID().getId();
            List<Path> outputs;
            try (Stream<Path> all = Files.walk(Paths.get(configuration.get(KEPT), "local"))) {
                outputs = all.filter(each -> each.getFileName().toString().equals("file.out")
                                             && each.toString().contains("_m_")).sorted().collect(Collectors.toList());
            }
            int number = 0;
            for (Path output : outputs) {
                SpillRecord index = new SpillRecord(
                    new org.apache.hadoop.fs.Path(output + ".index"), new JobConf(configuration));
                byte[] data = Files.readAllBytes(output);
                int start = (int) index.getIndex(reducer).startOffset;
                int size = (int) index.getIndex(reducer).partLength;
                Path target = Paths.get(configuration.get(KEPT), "map" + number++ + ".reduce" + reducer);
                Files.write(target, java.util.Arrays.copyOfRange(data, start, start + size), StandardOpenOption.CREATE);
            }
        }

        @Override
        public void reduce(Text word, Iterable<IntWritable> counts, Context context)
            throws IOException, InterruptedException {
            int sum = 0;
            for (IntWritable count : counts)
                sum += count.get();
            context.write(word, new IntWritable(sum));
        }
    }

    static int run(String input, String output, String kept) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(KEPT, kept);
        configuration.set("mapreduce.cluster.local.dir", new File(kept, "local").getAbsolutePath());
        configuration.set("mapreduce.framework.name", "local");
        configuration.setInt("mapreduce.local.map.tasks.maximum", 2);
        configuration.set("fs.defaultFS", "file:///");
        Job job = Job.getInstance(configuration, "word count");
        job.setJarByClass(WordCount.class);
        job.setMapperClass(Words.class);
        job.setReducerClass(Sum.class);
        job.setNumReduceTasks(2);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(IntWritable.class);
        FileInputFormat.addInputPath(job, new org.apache.hadoop.fs.Path(input));
        FileOutputFormat.setOutputPath(job, new org.apache.hadoop.fs.Path(output));
        return job.waitForCompletion(false) ? 0 : 1;
    }

    static void read(String segment) throws IOException {
        Configuration configuration = new Configuration();
        FileSystem files = FileSystem.getLocal(configuration).getRaw();
        long size = new File(segment).length();
        try (FSDataInputStream in = files.open(new org.apache.hadoop.fs.Path(segment))) {
            IFile.Reader<Text, IntWritable> reader = new IFile.Reader<>(configuration, in, size, null, null);
            DataInputBuffer key = new DataInputBuffer(), value = new DataInputBuffer();
            Text word = new Text();
            IntWritable count = new IntWritable();
            StringBuilder out = new StringBuilder();
            while (reader.nextRawKey(key)) {
                reader.nextRawValue(value);
                word.readFields(key);
                count.readFields(value);
                out.append(word).append('\t').append(count).append('\n');
            }
            System.out.write(out.toString().getBytes("UTF-8"));
            System.out.flush();
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 4 && arguments[0].equals("job"))
            System.exit(run(arguments[1], arguments[2], arguments[3]));
        else if (arguments.length == 2 && arguments[0].equals("read"))
            read(arguments[1]);
        else
            System.exit(2);
    }
}
